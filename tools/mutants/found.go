package main

// foundMutants put faults back that were once in the product while all tests
// passed.
func foundMutants() []mutant {
	scanned, resolve, whole := []string{"./loader/scan"}, []string{"./loader/resolve"}, []string{"-run", "TestRecreatedTables", "./cmd/penstock"}
	return []mutant{
		{"verify-keeps-text-of-released-rows", "loader/verify/layout.go", "	return strings.Clone(value)\n", "	return value\n", []string{"-run", "TestVerify", "./cmd/penstock"}},
		{"footers-of-other-tables", "loader/scan/open.go", "\"%s %d %s\", t.Pin.UUID, ", "\"%d %s\", ", scanned},
		{"footers-of-recreated-tables", "loader/scan/open.go", "\"%s %d %s\", t.Pin.UUID, ", "\"%d %s\", ", whole},
		{"footers-of-other-lengths", "loader/scan/open.go", "\"%s %d %s\", t.Pin.UUID, object.Size(), ", "\"%s %s\", t.Pin.UUID, ", scanned},
		{"align-by-any-field-of-the-name", "loader/resolve/align.go", "isColumn && column.ID != named.ID ||", "isColumn && column.ID != named.ID && p.Name != name ||", resolve},
		{"align-by-two-columns", "loader/resolve/align.go", "	if *from != 0 && *from != p.from {\n", "	if *from != 0 && *from > p.from {\n", resolve},
		{"failed-tries-ahead-go-to-disk", "loader/spill.go", "			c.gaveWay = err == nil // when", "			c.gaveWay = true // when", []string{"./loader"}},
		{"sides-that-gave-way-are-read-forever", "loader/spill.go", "			c.gaveWay = err == nil // when", "			c.gaveWay = false // when", []string{"./loader"}},
	}
}
