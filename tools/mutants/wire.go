package main

// wireMutants break the form of a stream's batches.
func wireMutants() []mutant {
	level := []string{"./loader/lane"}
	return []mutant{
		{
			"rows-of-two-dictionaries-are-one", "loader/lane/indexed.go",
			"	number := uint64(d.numberOf(dictionary)) << 32\n", "	number := uint64(min(1, d.numberOf(dictionary))) << 32\n", level,
		},
		{
			"last-batch-is-remembered", "loader/lane/indexed.go",
			"		clear(d.table)\n", "		_ = d.table\n", level,
		},
		{
			"each-row-is-sent-anew", "loader/lane/indexed.go",
			"		case row:\n			return e.slot\n", "		case row + 1:\n			return e.slot\n", level,
		},
		{
			"runs-share-their-slots", "loader/lane/indexed.go",
			"		slots = slots[one.rows:]\n", "		slots = slots[:min(len(slots), one.rows+len(slots))]\n", level,
		},
		{
			"indexed-fields-in-the-tables-order", "loader/lane/indexed.go",
			"s.Values.(*array.Struct).Field(of.Fields[k])", "s.Values.(*array.Struct).Field(k)", level,
		},
		{
			"levels-run-together", "loader/ranges.go",
			"		case last >= 0 && tables[last].Index == c.Index:\n", "		case last >= 0:\n",
			[]string{"./loader"},
		},
		{
			"level-has-the-name-of-a-column", "loader/resolve/output.go",
			"func(f arrow.Field) bool { return f.Name == name }", "func(f arrow.Field) bool { return f.Name == \"\" }",
			[]string{"./loader"},
		},
		{
			"ticket-forgets-the-form", "loader/dataset/canonical.go",
			"		Wire: unless(q.Wire, defaults.Wire),\n", "",
			[]string{"./loader/dataset", "./flight"},
		},
	}
}
