package main

// decoderMutants break how decimals, fixed-length bytes and deltas are decoded.
func decoderMutants() []mutant {
	parquet := []string{"./internal/parquet"}
	return []mutant{
		{
			"short-decimals-have-no-sign", "internal/parquet/decimal_decoder.go",
			"FromI64(int64(binary.BigEndian.Uint64(stored)) >> (8 * (wordBytes - width)))", "FromI64(int64(binary.BigEndian.Uint64(stored) >> (8 * (wordBytes - width))))", parquet,
		},
		{
			"long-decimals-have-no-sign", "internal/parquet/decimal_decoder.go",
			"New(high>>(8*(2*wordBytes-width)), ", "New(int64(uint64(high)>>(8*(2*wordBytes-width))), ", parquet,
		},
		{"last-decimals-have-bytes-behind", "internal/parquet/decimal_decoder.go", "i*width+wordBytes <= len(stored); i++ {", "i*width+width <= len(stored); i++ {", parquet},
		{"decimals-of-32-bits-have-64", "internal/parquet/decimal_decoder.go", "if l.width == arrow.Int32SizeBytes {", "if l.width < arrow.Int32SizeBytes {", parquet},
		{"packed-indices-may-be-one-beyond", "internal/parquet/fixed_decoder.go", "uint64(most) >= uint64(limit) {", "uint64(most) > uint64(limit) {", parquet},
		{"repeated-indices-may-be-one-beyond", "internal/parquet/fixed_decoder.go", "if uint64(h.value) >= uint64(limit) {", "if uint64(h.value) > uint64(limit) {", parquet},
		{"bytes-stay-under-nulls", "internal/parquet/fixed_decoder.go", "			clear(into)\n", "			_ = into\n", parquet},
		{"batches-forget-the-last-text", "internal/parquet/delta_strings.go", "c.last[:copy(c.last, before)]", "c.last[:0*copy(c.last, before)]", parquet},
		{"surplus-deltas-are-dropped", "internal/parquet/value_decoder.go", " || !l.deltas.exhausted() {", " {", parquet},
		{"texts-with-prefixes-are-as-long-as-their-pages", "internal/parquet/batch_limit.go", "max(c.maxMeanValue, maxDelta)", "max(c.maxMeanValue, min(maxDelta, 1))", parquet},
		{"batches-of-fixed-bytes-have-any-size", "internal/parquet/batch_limit.go", "r.rowsFor(&c, decodedWidth(described)))", "max(r.rowsFor(&c, decodedWidth(described)), r.group.maxRows))", parquet},
		{"bytes-behind-no-deltas-are-values", "internal/parquet/delta_strings.go", "	case first.left == 0:\n", "	case first.left < 0:\n", parquet},
		{"spark-is-left-to-the-library", "internal/parquet/value_decoder.go", "parquet.Encodings.RLE, parquet.Encodings.BitPacked:", "parquet.Encodings.RLE:", parquet},
		{"prefixes-may-be-longer-than-texts", "internal/parquet/delta_strings.go", "			if int(prefix) > len(before) {", "			if int(prefix) > cap(before) {", parquet},
		{"short-texts-are-longer", "internal/parquet/byte_array.go", "length <= shortText && ", "length <= shortText+4 && ", parquet},
		{"deltas-may-be-negative", "internal/parquet/delta.go", "	return signs >= 0 || d.values\n", "	return signs >= 0 || true\n", parquet},
	}
}
