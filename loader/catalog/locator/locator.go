// Package locator is the interface that all types of catalogs have in common. Each locates
// the current metadata of a table; some also return the metadata itself, and credentials
// for the table's files.
//
// Locators do not interpret metadata, so that one reader of metadata (icebergcat) serves
// every type of catalog.
package locator

import (
	"context"
	"time"
)

// Locator finds tables in a catalog. It is safe for concurrent use. Errors: NotFound for a table
// that does not exist (with the nearest name), Invalid for an object that is not a table,
// Unavailable for a catalog that does not answer or that refuses the server, Corrupt for a catalog
// that contradicts itself.
type Locator interface {
	// Locate returns where the current metadata of a table is. It changes nothing.
	Locate(ctx context.Context, table Table) (Located, error)
	// Close closes connections. It is the last call.
	Close()
}

// Together is a Locator that can look several tables up at once.
type Together interface {
	Locator
	// LocateAll returns the locations of tables by name. Tables that it cannot locate, for whatever reason, are
	// left out: Locate says why. It charges nothing, and grants nothing.
	// The error is that of a catalog that did not answer in time, and would not answer for each table either.
	LocateAll(ctx context.Context, tables []Table) (map[string]Located, error)
}

// Granter is a Locator that grants access to the files of its tables.
type Granter interface {
	Locator
	// Grants returns new grants for a table.
	Grants(ctx context.Context, table Table) ([]Grant, error)
}

// Lister is a Locator that can list its tables.
type Lister interface {
	Locator
	// List returns the names of all tables, but not of views, each as its parts. For a
	// catalog that cannot be listed it returns Invalid, with a remedy.
	List(ctx context.Context) ([][]string, error)
}

// CurrentLister is a Locator that can list the current metadata files of all tables.
type CurrentLister interface {
	Locator
	// ListCurrent returns the locations of the current metadata files, and of those before them, of all tables, those of
	// other catalogs in the same database too.
	ListCurrent(ctx context.Context) ([]string, error)
}

// Table is a table to locate.
type Table struct {
	Name  string   // in errors
	Parts []string // of the name: a namespace of at least one part, and the table
	// Most bounds the bytes of metadata; 0 is unlimited.
	Most int64
	// Charge is called before bytes of metadata are allocated; nil charges nothing.
	Charge func(bytes int64) error
}

// Grow charges bytes before they are allocated.
func (t Table) Grow(bytes int64) error {
	if t.Charge == nil {
		return nil
	}
	return t.Charge(bytes)
}

// Located is where the metadata of a table is.
type Located struct {
	// Location is the location of the metadata file, even if Text has its content.
	Location string
	// Text is the metadata, if the catalog returned it. It has been charged.
	Text []byte
	// Grants are for the table's files. Without any, the catalog's own properties apply.
	Grants []Grant
}

// Grant gives access to the files of one table whose locations begin with Prefix. The
// grant with the longest matching prefix applies.
type Grant struct {
	Prefix string
	// Properties override the catalog's own of the same names, which are PyIceberg's.
	// They include credentials.
	Properties map[string]string
	// Expires is when the credentials expire; zero if unknown.
	Expires time.Time
}
