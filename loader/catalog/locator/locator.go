// Package locator has the interface Locator, which all types of catalogs implement. A Locator finds
// the current metadata of a table. Some Locators also return the metadata itself, and credentials
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
// that does not exist (with the most similar name), Invalid for an object that is not a table,
// Unavailable for a catalog that does not answer or that refuses requests of this server, Corrupt
// for a catalog that contradicts itself.
type Locator interface {
	// Locate returns where the current metadata of a table is. It changes nothing.
	Locate(ctx context.Context, table Table) (Located, error)
	// Close closes connections. Call no method after it.
	Close()
}

// Together is a Locator that can look several tables up at once.
type Together interface {
	Locator
	// LocateAll returns the locations of tables by name. It leaves out each table that it cannot
	// locate, for any reason; call Locate for the error. It charges no memory, and returns no
	// grants. It returns an error only if the catalog did not answer in time, so that a request for
	// each table would not be answered either.
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
	// List returns the names of all tables, each split into its parts. It does not return views. If
	// the catalog cannot be listed, it returns Invalid, with a remedy.
	List(ctx context.Context) ([][]string, error)
}

// CurrentLister is a Locator that can list the current metadata files of all tables.
type CurrentLister interface {
	Locator
	// ListCurrent returns the locations of the current and the previous metadata file of every
	// table, including tables of other catalogs in the same database.
	ListCurrent(ctx context.Context) ([]string, error)
}

// Table is a table to locate.
type Table struct {
	Name  string   // in errors
	Parts []string // the parts of the name: at least one of the namespace, and the table
	// Most is the maximum size of the metadata in bytes; 0 is unlimited.
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
	// Text is the metadata, if the catalog returned it. Its memory has been charged.
	Text []byte
	// Grants give access to the table's files. If there are none, the files are opened with the
	// catalog's own properties.
	Grants []Grant
}

// Grant gives access to the files of one table whose locations begin with Prefix. The
// grant with the longest matching prefix applies.
type Grant struct {
	Prefix string
	// Properties override the catalog's properties of the same names. The names are those of
	// PyIceberg. The properties include credentials.
	Properties map[string]string
	// Expires is when the credentials expire; zero if unknown.
	Expires time.Time
}
