package dataset

import (
	"slices"
	"strings"
)

// CatalogType describes a type of catalog: what config files, errors and pages have to know about it. Package icebergcat opens
// catalogs.
type CatalogType struct {
	Name     string   // as PyIceberg has it
	Also     []string // other names for it
	Schemes  []string // of the URIs that mean this type
	NeedsURI bool
	ReadOnly bool   // no commit is atomic
	Example  string // of a type that needs a URI
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

// CatalogTypeOfURI returns the name of the type that a URI means, as PyIceberg derives it; "" if it means none.
func CatalogTypeOfURI(uri string) string {
	scheme, _, _ := strings.Cut(uri, ":")
	scheme, _, _ = strings.Cut(scheme, "+") // a driver
	for _, t := range CatalogTypes() {
		if slices.Contains(t.Schemes, scheme) {
			return t.Name
		}
	}
	if scheme == "thrift" {
		return "hive" // which is refused with a remedy
	}
	return ""
}
