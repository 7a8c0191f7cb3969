package tablediff

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/datafile"
)

// ColumnChanges describes how the top-level columns differ. Columns with the same field id count as
// the same column.
type ColumnChanges struct {
	Added   []string      `json:"added"`
	Dropped []string      `json:"dropped"`
	Renamed []TextChange  `json:"renamed"`
	Retyped []TypeChanges `json:"retyped"`
}

// TextChange has the earlier and the later text.
type TextChange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// TypeChanges has a column's later name, and the column's two types in Arrow's notation.
type TypeChanges struct {
	Column string `json:"column"`
	TextChange
}

// IsZero reports whether the columns are the same.
func (c *ColumnChanges) IsZero() bool {
	return c == nil || len(c.Added)+len(c.Dropped)+len(c.Renamed)+len(c.Retyped) == 0
}

// compareColumns compares the top-level columns of a table before and after.
func compareColumns(before, after *catalog.Table) *ColumnChanges {
	out := &ColumnChanges{Added: []string{}, Dropped: []string{}, Renamed: []TextChange{}, Retyped: []TypeChanges{}}
	find := func(in []catalog.Field, id int) (catalog.Field, bool) {
		if i := slices.IndexFunc(in, func(f catalog.Field) bool { return f.ID == id }); i >= 0 {
			return in[i], true
		}
		return catalog.Field{}, false
	}
	for _, f := range after.Fields {
		old, had := find(before.Fields, f.ID)
		if !had {
			out.Added = append(out.Added, f.Name)
			continue
		}
		if old.Name != f.Name {
			out.Renamed = append(out.Renamed, TextChange{old.Name, f.Name})
		}
		if !arrow.TypeEqual(old.Type, f.Type) {
			out.Retyped = append(out.Retyped, TypeChanges{f.Name, TextChange{old.Type.String(), f.Type.String()}})
		}
	}
	for _, f := range before.Fields {
		if _, has := find(after.Fields, f.ID); !has {
			out.Dropped = append(out.Dropped, f.Name)
		}
	}
	return out
}

// findKey sets the key columns and the columns to compare. If the key is unknown, it sets neither.
func (c *comparing) findKey() error {
	for _, name := range c.request.Key {
		f, ok := c.after.Field(name)
		switch {
		case !ok || !slices.ContainsFunc(c.after.Fields, func(o catalog.Field) bool { return o.ID == f.ID }):
			return datafile.UnknownColumn("key", name, c.after.Names())
		case !slices.ContainsFunc(c.both, func(o catalog.Field) bool { return o.ID == f.ID }):
			return fault.InvalidField("key", "column %q was added after the earlier snapshot", name).WithRemedy("name columns that both snapshots have")
		case !sortkey.Supported(f.Type):
			return fault.InvalidField("key", "column %q of type %s cannot be a key", name, f.Type).WithRemedy("name columns of numbers, texts or times")
		}
		c.key = append(c.key, f)
	}
	if len(c.key) == 0 {
		c.key = c.knownKey()
	}
	if len(c.key) == 0 {
		return nil
	}
	for _, f := range c.both {
		if slices.ContainsFunc(c.key, func(k catalog.Field) bool { return k.ID == f.ID }) {
			continue
		}
		if _, err := conform.New(arrow.NewSchema([]arrow.Field{f.Arrow()}, nil)); err != nil {
			c.notCompared = append(c.notCompared, f.Name)
			continue
		}
		c.values = append(c.values, f)
	}
	return nil
}

// knownKey returns the key that the table records, in which no two rows are equal. If the table records none, or lacks one of its
// columns, knownKey returns the key according to the request's UsualKey or else according to the table's layout. It returns nil if
// there is no such key.
func (c *comparing) knownKey() []catalog.Field {
	order := sorted(c.after.SortOrders)
	recorded := c.named(c.request.History.Key)
	if len(recorded) > 0 {
		for _, id := range order {
			if !slices.Contains(recorded, id) {
				recorded = append(recorded, id)
			}
		}
	}
	for _, ids := range [][]int{recorded, c.named(c.request.UsualKey), bucketed(c.after.Specs), order} {
		var key []catalog.Field
		for _, id := range ids {
			i := slices.IndexFunc(c.both, func(f catalog.Field) bool { return f.ID == id && sortkey.Supported(f.Type) })
			if i < 0 {
				key = nil
				break
			}
			key = append(key, c.both[i])
		}
		if len(key) > 0 {
			return key
		}
	}
	return nil
}

// named returns the ids of columns, or nil if the later snapshot lacks one of them.
func (c *comparing) named(columns []string) (ids []int) {
	for _, name := range columns {
		f, ok := c.after.Field(name)
		if !ok {
			return nil
		}
		ids = append(ids, f.ID)
	}
	return ids
}

// bucketed returns the ids of the columns that the newest spec with buckets is bucketed by.
func bucketed(specs map[int]catalog.Spec) (ids []int) {
	newest := -1
	for id, spec := range specs {
		var columns []int
		for _, p := range spec {
			if p.Transform.Kind == catalog.Bucket {
				columns = append(columns, p.Source)
			}
		}
		if len(columns) > 0 && id > newest {
			newest, ids = id, columns
		}
	}
	return ids
}

// sorted returns the ids of the columns of the newest sort order. It returns nil if that order
// sorts by a transform of a column.
func sorted(orders map[int]catalog.SortOrder) (ids []int) {
	newest := -1
	for id := range orders {
		newest = max(newest, id)
	}
	for _, by := range orders[newest] {
		if by.Transform.Kind != catalog.Identity {
			return nil
		}
		ids = append(ids, by.Source)
	}
	return ids
}
