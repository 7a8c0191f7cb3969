package main

// foundMutants put faults back that were once in the product while all tests
// passed.
func foundMutants() []mutant {
	scanned, whole := []string{"./loader/scan"}, []string{"-run", "TestRecreatedTables", "./cmd/penstock"}
	return []mutant{
		{"verify-keeps-text-of-released-rows", "loader/verify/layout.go", "	return strings.Clone(value)\n", "	return value\n", []string{"-run", "TestVerify", "./cmd/penstock"}},
		{"footers-of-other-tables", "loader/scan/open.go", "\"%s %d %s\", t.Pin.UUID, ", "\"%d %s\", ", scanned},
		{"footers-of-recreated-tables", "loader/scan/open.go", "\"%s %d %s\", t.Pin.UUID, ", "\"%d %s\", ", whole},
		{"footers-of-other-lengths", "loader/scan/open.go", "\"%s %d %s\", t.Pin.UUID, object.Size(), ", "\"%s %s\", t.Pin.UUID, ", scanned},
	}
}
