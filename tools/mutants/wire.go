package main

// wireMutants break the form of a stream's batches.
func wireMutants() []mutant {
	lane := []string{"./loader/lane"}
	return []mutant{
		{
			"rows-of-two-dictionaries-are-one", "loader/lane/indexed.go",
			"	number := uint64(d.numberOf(dictionary)) << 32\n", "	number := uint64(min(1, d.numberOf(dictionary))) << 32\n", lane,
		},
		{
			"last-batch-is-remembered", "loader/lane/indexed.go",
			"		clear(d.table)\n", "		_ = d.table\n", lane,
		},
		{
			"each-row-is-sent-anew", "loader/lane/indexed.go",
			"		case row:\n			return e.slot\n", "		case row + 1:\n			return e.slot\n", lane,
		},
		{
			"runs-share-their-slots", "loader/lane/indexed.go",
			"		slots = slots[one.rows:]\n", "		slots = slots[:min(len(slots), one.rows+len(slots))]\n", lane,
		},
		{
			"indexed-fields-in-the-tables-order", "loader/lane/indexed.go",
			"of.Columns[k].source(inside, ", "Column{Index: of.Index, Field: k}.source(inside, ", lane,
		},
		{
			"indexed-columns-run-together", "loader/resolve/wire.go",
			"func(o Output) bool { return o.Table == i })", "func(o Output) bool { return o.Table >= i })",
			[]string{"./loader"},
		},
		{
			"indexed-column-has-the-name-of-a-column", "loader/resolve/wire.go",
			"			if o.Name != x.Name || !beside", "			if o.Name == x.Name || !beside",
			[]string{"./loader"},
		},
		{
			"ticket-forgets-the-form", "loader/dataset/canonical.go",
			"Count: unless(r.Count, preset.Count), Wire: unless(r.Wire, preset.Wire),", "Count: unless(r.Count, preset.Count),",
			[]string{"./loader/dataset", "./loader/dataset/decode", "./flight"},
		},
	}
}
