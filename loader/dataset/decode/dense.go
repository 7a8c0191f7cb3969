package decode

import (
	"math"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
)

// readDense decodes an object from names to packed columns: a list of columns, or an object
// with a list and a fill.
func readDense(d *decoder, at place) []dataset.Dense {
	if at.kind != kindObject {
		d.mismatch(at, "an object that maps names to lists of columns")
		return nil
	}
	if len(at.members) > maxColumns {
		d.fail(at.path, "has %d packed columns, the limit is %d", len(at.members), maxColumns)
		return nil
	}
	var all []dataset.Dense
	for _, m := range at.members {
		p := at.member(m)
		one := dataset.Dense{Name: m.name}
		if m.name == "" || len(m.name) > maxName || strings.ContainsFunc(m.name, isControl) {
			d.fail(p.path, "a column's name has 1 to %d bytes and no control characters", maxName)
		}
		switch p.kind {
		case kindObject:
			object(d, p, &one, []field[dataset.Dense]{
				{name: "columns", must: true, read: func(d *decoder, at place, out *dataset.Dense) { out.Columns = readPacked(d, at) }},
				{name: "fill", read: func(d *decoder, at place, out *dataset.Dense) { out.Fill = readFill(d, at) }},
			})
		case kindList:
			one.Columns = readPacked(d, p)
		case kindNull, kindBool, kindWhole, kindNumber, kindText, kindTime:
			d.fail(p.path, "must be a list of columns, or an object with columns and fill, not %s", p.kind)
		}
		all = append(all, one)
	}
	return all
}

// readPacked decodes the columns that are packed into one column.
func readPacked(d *decoder, at place) []dataset.Column {
	columns := readColumns(d, at)
	if at.kind == kindList && len(at.items) == 0 {
		d.fail(at.path, "must name at least one column")
	}
	noCategories(d, at.path, columns, "category is a form of texts, and dense packs numbers; name the column in columns")
	for i, c := range columns {
		if c.Name != "" {
			d.fail(at.path+indexed(i), "the name %q has no effect, since packed columns share one name; leave it out", c.Name)
		}
	}
	return columns
}

// readFill decodes the replacement for nulls.
func readFill(d *decoder, at place) *float32 {
	v := d.number(at, -math.MaxFloat32, math.MaxFloat32)
	f := float32(v)
	return &f
}
