package decode

import "github.com/penstock/penstock/loader/dataset"

func readColumns(d *decoder, at place) []dataset.Column {
	return list(d, at, maxColumns, readQueryColumn)
}

// noCategories reports columns with the cast `category` in a place where it is not allowed.
func noCategories(d *decoder, path string, columns []dataset.Column, why string) {
	for i, c := range columns {
		if c.As == dataset.Category {
			d.fail(path+indexed(i)+".as", "%s", why)
		}
	}
}

// readComputed decodes a computed column of a dataset.
func readComputed(d *decoder, at place) dataset.Computed {
	var out dataset.Computed
	object(d, at, &out, []field[dataset.Computed]{
		{name: "column", also: []string{"name", "as", "alias"}, must: true, read: func(d *decoder, at place, out *dataset.Computed) { out.Column = d.name(at) }},
		{name: "expr", also: []string{"expression", "formula", "sql", "value"}, must: true, read: func(d *decoder, at place, out *dataset.Computed) { out.Expr = d.expression(at) }},
	})
	return out
}

// readQueryColumn decodes a column of a query: its name, or an object that renames, shapes or
// computes it.
func readQueryColumn(d *decoder, at place) dataset.Column {
	out := readColumn(d, at)
	if out.Expr != "" && out.Name != "" {
		d.fail(at.pathOf("name"), "a computed column has no other name than its column; leave it out, or write it as the column")
	}
	return out
}

// readStagingColumn decodes a column of a staging entry.
func readStagingColumn(d *decoder, at place) dataset.Column {
	out := readColumn(d, at)
	if out.Expr != "" {
		d.fail(at.pathOf("expr"), "an entry has only columns of its table; write the expression in the dataset's computed, or in a query's columns")
	}
	return out
}

// readColumn decodes a column: its name, or an object that renames, shapes or computes it.
func readColumn(d *decoder, at place) dataset.Column {
	if at.kind != kindObject {
		return dataset.Column{Column: d.name(at)}
	}
	var out dataset.Column
	object(d, at, &out, []field[dataset.Column]{
		{name: "column", must: true, read: func(d *decoder, at place, out *dataset.Column) { out.Column = d.name(at) }},
		{name: "name", read: func(d *decoder, at place, out *dataset.Column) { out.Name = d.name(at) }},
		{name: "first", read: func(d *decoder, at place, out *dataset.Column) { out.First = int(d.whole(at, 1, maxInt32)) }},
		{name: "last", read: func(d *decoder, at place, out *dataset.Column) { out.Last = int(d.whole(at, 1, maxInt32)) }},
		{name: "as", read: func(d *decoder, at place, out *dataset.Column) { out.As = readCastType(d, at) }},
		{name: "expr", also: []string{"expression", "formula", "sql", "value"}, read: func(d *decoder, at place, out *dataset.Column) { out.Expr = d.expression(at) }},
	})
	if out.First != 0 && out.Last != 0 {
		d.fail(at.pathOf("last"), "first and last cannot be combined; keep one of them")
	}
	return out
}
