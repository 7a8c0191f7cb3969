package dataset

import (
	"slices"
	"strings"
)

// CatalogType describes a type of catalog, for config files, errors and documentation pages.
// Package icebergcat opens catalogs.
type CatalogType struct {
	Name     string   // the name that PyIceberg uses
	Also     []string // other names for it
	Schemes  []string // URI schemes that imply this type
	NeedsURI bool
	ReadOnly bool   // because its commits are not atomic
	Example  string // an example of its URI; "": the type needs no URI
}

// The names of the types.
const (
	CatalogDirectory = "directory"
	CatalogREST      = "rest"
	CatalogSQL       = "sql"
)

// CatalogTypes returns all supported types, in the order of their names.
func CatalogTypes() []CatalogType {
	return []CatalogType{
		{Name: CatalogDirectory, Also: []string{"file", "files", "folder", "dir", "local"}, ReadOnly: true},
		{
			Name: CatalogREST, Also: []string{"polaris", "nessie", "lakekeeper"}, Schemes: []string{"http", "https"}, NeedsURI: true,
			Example: `{type: rest, uri: "https://catalog.example.com"}`,
		},
		{
			Name: CatalogSQL, Also: []string{"sqlite3"}, Schemes: []string{"sqlite", "postgresql", "postgres"}, NeedsURI: true,
			Example: `{type: sql, uri: "sqlite:////path/to/catalog.db"}`,
		},
	}
}

// CatalogTypeOf returns the type with a name; false if it is not supported.
func CatalogTypeOf(name string) (CatalogType, bool) {
	all := CatalogTypes()
	i := slices.IndexFunc(all, func(t CatalogType) bool { return t.Name == name })
	if i < 0 {
		return CatalogType{}, false
	}
	return all[i], true
}

// CatalogTypeOfURI returns the name of the catalog type that a URI implies, by the same rules as
// PyIceberg. It returns "" if the URI implies no type.
func CatalogTypeOfURI(uri string) string {
	scheme, _, _ := strings.Cut(uri, ":")
	scheme, _, _ = strings.Cut(scheme, "+") // drop a driver, as in postgresql+psycopg2
	for _, t := range CatalogTypes() {
		if slices.Contains(t.Schemes, scheme) {
			return t.Name
		}
	}
	if scheme == "thrift" {
		return "hive" // this type is refused with a remedy
	}
	return ""
}
