package dataset

import (
	"math"
	"strings"
)

// Dense selects a column that packs several numeric columns into rows of float32
// (docs/spec/wire.md).
type Dense struct {
	Name    string
	Columns []Column // output names of the dataset, shaped but not renamed; at least one
	Fill    *float32 // replaces nulls; nil: a null is an error
}

// Selection is the selection of columns in a stream.
type Selection struct {
	Columns []Column // nil: all columns that Dense does not pack
	Dense   []Dense
}

// Selection returns the columns that the reading selects.
func (r Reading) Selection() Selection { return Selection{Columns: r.Columns, Dense: r.Dense} }

// dense decodes an object from names to packed columns: a list of columns, or an object
// with a list and a fill.
func (d *decoder) dense(at place) []Dense {
	if at.kind != kindObject {
		d.mismatch(at, "an object from a name to a list of columns")
		return nil
	}
	if len(at.members) > maxColumns {
		d.fail(at.path, "packs %d columns, the limit is %d", len(at.members), maxColumns)
		return nil
	}
	var all []Dense
	for _, m := range at.members {
		p := at.member(m)
		one := Dense{Name: m.name}
		if m.name == "" || len(m.name) > maxName || strings.ContainsFunc(m.name, isControl) {
			d.fail(p.path, "a column's name has 1 to %d bytes and no control characters", maxName)
		}
		switch p.kind {
		case kindObject:
			object(d, p, &one, []field[Dense]{
				{name: "columns", must: true, read: func(d *decoder, at place, out *Dense) { out.Columns = d.packed(at) }},
				{name: "fill", read: func(d *decoder, at place, out *Dense) { out.Fill = d.fill(at) }},
			})
		case kindList:
			one.Columns = d.packed(p)
		case kindNull, kindBool, kindWhole, kindNumber, kindText, kindTime:
			d.fail(p.path, "must be a list of columns, or an object with columns and fill, not %s", p.kind)
		}
		all = append(all, one)
	}
	return all
}

// packed decodes the columns that are packed into one column.
func (d *decoder) packed(at place) []Column {
	columns := d.columns(at)
	if at.kind == kindList && len(at.items) == 0 {
		d.fail(at.path, "must name at least one column")
	}
	for i, c := range columns {
		if c.Name != "" {
			d.fail(at.path+indexed(i), "%q is a name that nobody sees: the columns that are packed have one name together; leave it out", c.Name)
		}
	}
	return columns
}

// fill decodes the replacement for nulls.
func (d *decoder) fill(at place) *float32 {
	v := d.number(at, -math.MaxFloat32, math.MaxFloat32)
	f := float32(v)
	return &f
}

// denseForm is the JSON form of dense columns: an object from their names, in the order
// of the columns.
type denseForm []Dense

// MarshalJSON keeps the order, which a map would lose, and writes columns without a fill
// in the short form.
func (f denseForm) MarshalJSON() ([]byte, error) {
	object := []byte("{")
	for i, one := range f {
		if i > 0 {
			object = append(object, ',')
		}
		var value any = one.Columns
		if one.Fill != nil {
			value = struct {
				Columns []Column `json:"columns"`
				Fill    float32  `json:"fill"`
			}{one.Columns, *one.Fill}
		}
		object = append(append(append(object, encode(one.Name)...), ':'), encode(value)...)
	}
	return append(object, '}'), nil
}
