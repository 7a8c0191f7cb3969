package main

// writtenCodesMutants break how dictionaries of integers are written.
func writtenCodesMutants() []mutant {
	writes := []string{"./internal/parquet/write"}
	table, writer := "internal/parquet/write/code_table.go", "internal/parquet/write/code_writer.go"
	return []mutant{
		{"values-with-a-hash-alike-get-one-code", table, "		for t.slots[at] != 0 && t.values[t.slots[at]-1] != v {\n", "		for t.slots[at] != 0 && false {\n", writes},
		{"packed-codes-lose-the-last-bits", table, "		out = append(out, byte(held))\n", "		out = append(out, 0)\n", writes},
		{"runs-of-codes-have-a-byte", table, "shift < width; shift += 8", "shift < min(width, 8); shift += 8", writes},
		{"dictionaries-have-no-limit", table, "			if len(t.values) >= limit {\n", "			if len(t.values) >= 4*limit {\n", writes},
		{"empty-lists-of-integers-are-null", writer, "			definition := empty\n", "			definition := int16(0)\n", writes},
		{"elements-begin-no-row", writer, "		w.repetitions[len(w.repetitions)-int(to-from)] = 0\n", "", writes},
		{"null-elements-have-values", writer, "	if a.NullN() == 0 {\n		return values\n", "	if a.NullN() == 0 || len(values) > 0 {\n		return values\n", writes},
		{"footers-know-no-dictionary-of-integers", writer, "		described.DictionaryPageOffset = new(int64(firstPage))\n", "		described.DictionaryPageOffset = new(int64(0))\n", writes},
	}
}
