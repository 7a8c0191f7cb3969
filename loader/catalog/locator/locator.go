// Package locator is what the kinds of catalogs have in common: each says where the
// metadata of a table lies now, and some give it, and what opens the table's files.
//
// What the metadata says is for others to read. So one reader of metadata serves every
// kind of catalog, and a kind of catalog is a Locator.
package locator

import (
	"context"
	"time"
)

// Locator finds tables in a catalog. Locate reads, and changes nothing. It is safe for
// concurrent use. Errors: NotFound for a table that does not exist (nearest name
// proposed), Invalid for what is no table, Unavailable for a catalog that does not answer
// or that refuses the server, Corrupt for one that contradicts itself.
type Locator interface {
	// Locate says where the metadata of a table is now.
	Locate(ctx context.Context, table Table) (Located, error)
	// Close ends connections. Nobody asks afterwards.
	Close()
}

// Granter is a Locator that gives keys for the files of its tables.
type Granter interface {
	Locator
	// Grants asks anew for what opens the files of a table.
	Grants(ctx context.Context, table Table) ([]Grant, error)
}

// Lister is a Locator that can say which tables it has.
type Lister interface {
	Locator
	// List returns the names of all tables, views left out, each as its parts. Where a
	// catalog cannot be listed that is Invalid, with what helps.
	List(ctx context.Context) ([][]string, error)
}

// Table is what a Locator is asked for.
type Table struct {
	Name  string   // as errors name it
	Parts []string // of the name: a namespace of at least one, and the table
	// Most is how many bytes of metadata are taken; 0 is any number.
	Most int64
	// Charge is called before so many more bytes are held of it; nil: nothing is charged.
	Charge func(bytes int64) error
}

// Grow charges bytes that will be held.
func (t Table) Grow(bytes int64) error {
	if t.Charge == nil {
		return nil
	}
	return t.Charge(bytes)
}

// Located is where the metadata of a table is.
type Located struct {
	// Location is that of the metadata file, whatever the catalog itself gives of it.
	Location string
	// Text is the metadata, if the catalog gave it: its caller has been charged.
	Text []byte
	// Grants are what the catalog gives for the table's files; none: what holds for
	// all of its tables does for this one.
	Grants []Grant
}

// Grant opens those files of one table whose locations begin with Prefix. The one with
// the longest prefix counts.
type Grant struct {
	Prefix string
	// Properties hold in place of the catalog's own of the same names, under the names
	// that PyIceberg has for them: keys are among them.
	Properties map[string]string
	// Expires is when the keys end; the zero time: nobody said.
	Expires time.Time
}
