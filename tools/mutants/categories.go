package main

// categoryMutants break categories: their type, the values of their dictionaries, where they are refused, the views
// of streams that share them, and the charge of their memory.
func categoryMutants() []mutant {
	const cut, category, wire, spec = "loader/lane/cut.go", "loader/lane/category.go", "loader/resolve/wire.go", "loader/fanout/spec.go"
	const shape, layout, texts = "loader/resolve/shape.go", "loader/stream/layout.go", "cmd/penstock/rowformat/texts.go"
	lane, resolve := []string{"-run", "Categor|ViewsChange", "./loader/lane"}, []string{"-run", "Categor", "./loader/resolve"}
	share, read := []string{"-run", "Categor", "./loader/fanout"}, []string{"-run", "Categor", "./loader"}
	decode := []string{"./loader/dataset/decode"}
	return []mutant{
		{"recent-codes-are-of-other-values", "internal/batch/category.go", "!r.set || r.value != string(value)", "!r.set", []string{"-run", "Coded", "./internal/batch"}},
		{"categories-of-slices-keep-the-dictionary", category, "(!codes || v.From == 0 && v.To == int64(c.Len()))", "(!codes || v.From == 0)", lane},
		{"views-of-categories-keep-their-form", category, "if codes == batch.IsCoded(c) && (", "if (", lane},
		{"views-change-the-type-of-texts", category, "	if !arrow.TypeEqual(batch.ValueType(c.DataType()), batch.ValueType(field.Type)) {\n", "	if false {\n", lane},
		{"making-codes-is-free", cut, "besides.GrowWait(r.ctx, working(made))", "besides.GrowWait(r.ctx, 0)", lane},
		{"categories-stay-charged-as-texts", cut, "	held.Shrink(spare)\n", "	_ = spare\n", lane},
		{"views-stay-charged-as-texts", category, "v.own.Shrink(more + unused([]source{of}))", "v.own.Shrink(more)", lane},
		{"making-codes-of-a-view-stays-charged", category, "v.own.Shrink(more + unused([]source{of}))", "v.own.Shrink(unused([]source{of}))", lane},
		{"any-type-is-a-category", shape, " || o.Type().ID() != arrow.STRING {", " {", resolve},
		{"datasets-have-categories", "loader/dataset/decode/dataset.go", "		if c.As == dataset.Category {\n", "		if c.As == \"categories\" {\n", decode},
		{"grouped-batches-have-categories", wire, "		if i := slices.IndexFunc(outputs, func(o Output) bool { return o.Category }); i >= 0 {\n", "		if i := -1; i >= 0 {\n", resolve},
		{"categories-are-indexed", wire, "				one.Apart = one.Apart || o.Category\n", "", read},
		{"auto-indexes-categories", layout, " && !x.Apart {", " {", read},
		{"auto-reserves-names-of-categories", wire, "		columns = slices.DeleteFunc(columns, func(x Indexed) bool { return x.Apart })\n", "		_ = columns\n", resolve},
		{"categories-do-not-share", spec, "		c.byName[one.Name] = asValues(one)\n", "		c.byName[one.Name] = one\n", share},
		{"categories-share-views-with-texts", spec, "	c.id = digest.Of(c.list)\n", "	c.id = digest.Of(c.byName)\n", share},
	}
}
