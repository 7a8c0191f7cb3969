package main

// pqwriteMutants break how data files are written, and how columns are added to them.
func pqwriteMutants() []mutant {
	writes := []string{"./internal/parquet/write"}
	bounds, conform := "internal/parquet/write/bounds.go", "internal/parquet/write/conform.go"
	writer, assembler := "internal/parquet/write/writer.go", "internal/parquet/chunk/assembler.go"
	return []mutant{
		{"upper-bounds-are-not-rounded-up", bounds, "	case b.longer:\n		return b.next(b.max)\n", "", writes},
		{"longer-texts-forget-the-rounding", bounds, "	b.longer = b.longer || order >= 0 &&", "	b.longer = order >= 0 &&", writes},
		{"a-larger-text-keeps-the-rounding", bounds, "bytes.Clone(prefix), false\n", "bytes.Clone(prefix), b.longer\n", writes},
		{"bounds-have-surrogates", bounds, "			if next == surrogates {\n", "			if next == 0 {\n", writes},
		{"nan-is-a-bound", bounds, "			b.notANum++\n", "			b.notANum++\n			b.some, b.min, b.max = true, v, v\n", writes},
		{"lower-zero-is-positive", bounds, "	if b.min == 0 {\n", "	if b.min == 0 && !b.some {\n", writes},
		{"decimal-bounds-lose-their-sign", bounds, "(out[1]^sign)&0x80 == 0", "(out[1]^sign)&0x80 < 0xff", writes},
		{"decimals-may-have-more-digits", bounds, "	if b.some && (!b.fits(b.min) || !b.fits(b.max)) {\n", "	if b.some && !b.fits(b.min) && !b.fits(b.max) && b.min != b.max {\n", writes},
		{"texts-need-not-be-utf8", bounds, "if b.text && !utf8.Valid(v) {", "if b.text && v == nil {", writes},
		{"null-structs-have-fields", conform, "		if a.NullN() > 0 {\n			children[i]", "		if a.NullN() > a.Len() {\n			children[i]", writes},
		{"null-lists-have-elements", conform, "				to = from\n", "				_ = to\n", writes},
		{"required-columns-may-have-nulls", conform, "	if !n.nullable && nulls > parent {\n", "	if !n.nullable && nulls > parent+a.Len() {\n", writes},
		{"long-rows-are-not-refused", "internal/parquet/write/encoder.go", "size > maxRowBytes {", "size > 4*maxRowBytes {", writes},
		{"texts-as-deltas-weigh-nothing", "internal/parquet/write/choose.go", "score < best[i])", "score > best[i])", writes},
		{"rows-held-back-are-lost", writer, "	if w.settings == nil && w.first.count > 0 {\n", "	if w.settings == nil && w.first.count > w.opts.PageRows {\n", writes},
		{"row-groups-have-more-rows", writer, "		return w.opts.RowGroupRows - w.open, nil\n", "		return w.opts.RowGroupRows, nil\n", writes},
		{"memory-is-not-released", writer, "		w.opts.Memory.Shrink(w.reserved)\n", "", writes},
		{"failed-files-close", writer, "	if w.err != nil {\n		return WrittenFile{}, w.err\n	}\n", "", writes},
		{"files-end-within-a-key", "internal/parquet/write/roll.go", "	if !changes && r.current.Bytes() >= r.target+r.target/4 {\n", "	if r.current.Bytes() >= r.target {\n", writes},
		{"the-last-row-of-a-batch-has-no-key", "internal/parquet/write/roll.go", "			before, row = r.last, 0\n", "			before, row = b, 0\n", writes},
		{"the-order-is-not-declared", assembler, "		group.SortingColumns = append(group.SortingColumns, new(s))\n", "		_ = s\n", writes},
		{"encodings-are-listed-in-any-order", assembler, "		return x.PageType > y.PageType || x.PageType == y.PageType && x.Encoding < y.Encoding\n", "		return x.PageType > y.PageType && x.Encoding < y.Encoding\n", writes},
	}
}
