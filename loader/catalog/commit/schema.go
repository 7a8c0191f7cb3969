package commit

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// SchemaEditor changes the schemas of the tables of one catalog, without a new snapshot. What
// is said of a Committer holds for it too.
type SchemaEditor interface {
	// AddSchema adds a schema to a table and returns its id. It does not make the schema
	// current, so readers and other writers see no change. If the table has an equal schema, it
	// returns that one's id and writes nothing.
	//
	// It returns Conflict if the schema to edit no longer exists, or if a name or a field id is
	// that of another column; and Invalid if the new schema lacks a column that the current
	// partition spec, the current sort order or the identifier of rows needs.
	AddSchema(ctx context.Context, edit SchemaEdit) (id int, err error)
	// SetSchema makes another schema of the table current, if the current one is the one that the
	// caller says, and main is where it says. If the wanted schema is current already, it
	// returns nil. It returns Conflict if the table differs from what the caller says, or
	// no longer has the wanted schema.
	SetSchema(ctx context.Context, move SchemaMove) error
}

// SchemaEdit derives a schema from another one. The schema is edited as text: documentation,
// defaults, and attributes that this version does not know stay.
type SchemaEdit struct {
	Table string
	UUID  string // of the table
	// Base is the id of the schema to edit.
	Base int
	// Rename has new names of top-level columns by field id. All are renamed at once, so names
	// can be swapped. Drop are field ids of top-level columns to leave out.
	Rename map[int]string
	Drop   []int
	// Add are columns to append. The field id of each is larger than any that the table has used, or
	// is that of the same column in another schema of the table, with the same name, type and
	// documentation; then that column comes back with all attributes that it had there. The
	// documentation distinguishes columns whose writers chose the same id and name at the same time.
	Add []NewColumn
	// DryRun checks the edit against the table, and adds nothing.
	DryRun bool
}

// SchemaMove makes another schema of a table current.
type SchemaMove struct {
	Table string
	UUID  string // of the table
	// From is the id of the schema that is current, To of the one to make current.
	From, To int
	// Head is the snapshot that main must be at; 0: any.
	Head int64
}

// TableSchema is one of the schemas of a table.
type TableSchema struct {
	ID int
	// Fields are its top-level columns in order.
	Fields []catalog.Field
	// Docs is the documentation of top-level columns that have one, by field id.
	Docs map[int]string
}

// SchemaOf returns the schema of an id, or false.
func (s *TableState) SchemaOf(id int) (TableSchema, bool) {
	for _, one := range s.Schemas {
		if one.ID == id {
			return one, true
		}
	}
	return TableSchema{}, false
}

// Check returns Invalid for an edit that contradicts itself.
func (e SchemaEdit) Check() error {
	if e.Table == "" {
		return fault.InvalidField("table", "the edit names no table")
	}
	dropped := map[int]bool{}
	for _, id := range e.Drop {
		if dropped[id] {
			return fault.InvalidField("drop", "field id %d is given twice", id)
		}
		dropped[id] = true
	}
	for id, name := range e.Rename {
		if name == "" || dropped[id] {
			return fault.InvalidField("rename", "the column with field id %d is renamed to %q, and %s", id, name, map[bool]string{true: "dropped", false: "needs a name"}[dropped[id]])
		}
	}
	return Change{Columns: e.Add}.checkColumns()
}

// Check returns Invalid for a move that contradicts itself.
func (m SchemaMove) Check() error {
	if m.Table == "" {
		return fault.InvalidField("table", "the move names no table")
	}
	return nil
}
