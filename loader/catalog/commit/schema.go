package commit

import (
	"context"
	"maps"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// SchemaEditor changes the schemas of the tables of one catalog, without a new snapshot. The
// comment of Committer also applies to it.
type SchemaEditor interface {
	// AddSchema adds a schema to a table and returns its id. It does not make the schema current,
	// so readers and other writers see no change. If the table already has an equal schema,
	// AddSchema returns the id of that schema and writes nothing.
	//
	// It returns Conflict if the schema to edit no longer exists, or if another column already has
	// the name or the field id of a new column. It returns Invalid if the new schema lacks a column
	// that the current partition spec, the current sort order or the row identifier needs.
	AddSchema(ctx context.Context, edit SchemaEdit) (id int, err error)
	// SetSchema makes another schema of the table current, if schema move.From is current and main
	// is at move.Head. If schema move.To is already current, it returns nil. It returns Conflict if
	// another schema is current, if main is at another snapshot, or if the table no longer has
	// schema move.To.
	SetSchema(ctx context.Context, move SchemaMove) error
}

// SchemaEdit derives a schema from another one. The schema is edited as text, so that
// documentation, defaults, and attributes that this version does not know are kept.
type SchemaEdit struct {
	Table string
	UUID  string // of the table
	// Base is the id of the schema to edit.
	Base int
	// Rename has new names of top-level columns, by field id. All columns are renamed at once, so
	// two columns can swap their names. Drop has the field ids of top-level columns to leave out.
	Rename map[int]string
	Drop   []int
	// Add has the columns to append. A new column has a field id that is larger than any id that
	// the table has used. To bring a column of another schema of the table back, give it the same
	// field id, name, type and documentation as there; it then gets all attributes that it has
	// there. The documentation is compared because two writers may have chosen the same id and name
	// for different columns at the same time.
	Add []NewColumn
	// If DryRun is true, the edit is only checked against the table, and nothing is added.
	DryRun bool
}

// SchemaMove makes another schema of a table current.
type SchemaMove struct {
	Table string
	UUID  string // of the table
	// From is the id of the schema that must be current. To is the id of the schema to make
	// current.
	From, To int
	// Head is the snapshot that main must be at; 0: any.
	Head int64
}

// TableSchema is one of the schemas of a table.
type TableSchema struct {
	ID int
	// Fields are the schema's top-level columns in order.
	Fields []catalog.Field
	// Docs has the documentation of the top-level columns that have any, by field id.
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

// Edited returns the table with the schema that the edit makes from the table's schema. added has the columns of Add, in the same
// order, as a catalog describes them.
func (e SchemaEdit) Edited(t *catalog.Table, added []catalog.Field) *catalog.Table {
	names := maps.Clone(e.Rename)
	if names == nil {
		names = map[int]string{}
	}
	for _, id := range e.Drop {
		names[id] = ""
	}
	out := t.Renamed(names)
	out.Fields = append(out.Fields, added...)
	out.Origins = map[int]dataset.ColumnOrigin{}
	for _, f := range out.Fields {
		if o, ok := t.Origins[f.ID]; ok {
			out.Origins[f.ID] = o
		}
	}
	for _, c := range e.Add {
		if o, ok := dataset.OriginOf(c.Doc); ok {
			out.Origins[c.ID] = o
		}
	}
	return out
}
