package main

// pqwriteMutants break how data files are written, and how columns are added to them.
func pqwriteMutants() []mutant {
	writes, rewrites := []string{"./internal/parquet/write"}, []string{"./internal/parquet/rewrite"}
	bounds, conform := "internal/parquet/write/bounds.go", "internal/parquet/write/conform.go"
	writer, assembler := "internal/parquet/write/writer.go", "internal/parquet/chunk/assembler.go"
	return append(writtenCodesMutants(), []mutant{
		{"upper-bounds-are-not-rounded-up", bounds, "	case b.longer:\n		return b.next(b.max)\n", "", writes},
		{"longer-texts-forget-the-rounding", bounds, "	b.longer = b.longer || order >= 0 &&", "	b.longer = order >= 0 &&", writes},
		{"a-larger-text-keeps-the-rounding", bounds, "bytes.Clone(prefix), false\n", "bytes.Clone(prefix), b.longer\n", writes},
		{"bounds-have-surrogates", bounds, "			if next == surrogates {\n", "			if next == 0 {\n", writes},
		{"nan-is-a-bound", bounds, "			b.notANum++\n", "			b.notANum++\n			b.some, b.min, b.max = true, v, v\n", writes},
		{"lower-zero-is-positive", bounds, "	if b.min == 0 {\n", "	if b.min == 0 && !b.some {\n", writes},
		{"decimal-bounds-lose-their-sign", bounds, "(out[1]^sign)&0x80 == 0", "(out[1]^sign)&0x80 < 0xff", writes},
		{"decimals-may-have-more-digits", bounds, "	if b.some && (!b.fits(b.min) || !b.fits(b.max)) {\n", "	if b.some && !b.fits(b.min) && !b.fits(b.max) && b.min != b.max {\n", writes},
		{"texts-need-not-be-utf8", bounds, "if b.text && !utf8.Valid(v) {", "if b.text && v == nil {", writes},
		{"null-structs-have-fields", conform, "		if a.NullN() > 0 && field", "		if a.NullN() > a.Len() && field", writes},
		{"null-lists-have-elements", conform, "				to = from\n", "				_ = to\n", writes},
		{"required-columns-may-have-nulls", conform, "	if !n.nullable && nulls > parent {\n", "	if !n.nullable && nulls > parent+a.Len() {\n", writes},
		{"long-rows-are-not-refused", "internal/parquet/write/encoder.go", "size > maxRowBytes {", "size > 4*maxRowBytes {", writes},
		{"texts-as-deltas-weigh-nothing", "internal/parquet/write/choose.go", "score < best[i])", "score > best[i])", writes},
		{"lists-of-deltas-weigh-what-numbers-do", "internal/parquet/write/choose.go", "			return 150\n", "			return 115\n", writes},
		{"deltas-do-not-wait-for-values", "internal/parquet/write/encoder.go", "	if !e.waits {\n", "	if !e.waits || e.waits {\n", writes},
		{"pages-have-a-wrong-checksum", "internal/parquet/chunk/checksum.go", "page[int64(len(page))-stored:])", "page[int64(len(page))-stored+1:])", writes},
		{"rows-held-back-are-lost", writer, "	if w.settings == nil && w.first.count > 0 {\n", "	if w.settings == nil && w.first.count > w.opts.PageRows {\n", writes},
		{"row-groups-have-more-rows", writer, "		return w.opts.RowGroupRows - w.open, nil\n", "		return w.opts.RowGroupRows, nil\n", writes},
		{"memory-is-not-released", writer, "		w.opts.Memory.Shrink(w.reserved)\n", "", writes},
		{"failed-files-close", writer, "	if w.err != nil {\n		return WrittenFile{}, w.err\n	}\n", "", writes},
		{"files-end-within-a-key", "internal/parquet/write/roll.go", "	if !changes && r.current.Bytes() >= r.target+r.target/4 {\n", "	if r.current.Bytes() >= r.target {\n", writes},
		{"the-last-row-of-a-batch-has-no-key", "internal/parquet/write/roll.go", "			before, row = r.last, 0\n", "			before, row = b, 0\n", writes},
		{"the-order-is-not-declared", assembler, "		group.SortingColumns = append(group.SortingColumns, new(s))\n", "		_ = s\n", writes},
		{"encodings-are-listed-in-any-order", assembler, "		return x.PageType > y.PageType || x.PageType == y.PageType && x.Encoding < y.Encoding\n", "		return x.PageType > y.PageType && x.Encoding < y.Encoding\n", writes},
		{"pages-are-not-moved", assembler, "shiftOffsets(c.OffsetIndex, moved)", "shiftOffsets(c.OffsetIndex, 0)", rewrites},
		{"filters-are-not-moved", assembler, "new(a.at), new(int32(len(filter)))", "c.MetaData.BloomFilterOffset, new(int32(len(filter)))", rewrites},
		{"fewer-new-rows-are-enough", writer, "(w.open > 0 || len(w.file.Splits()) < len(w.base.Rows()))", "w.open > 0", rewrites},
		{"more-new-rows-are-ignored", writer, "	if done == len(groups) {\n", "	if done == len(groups)+1 {\n", rewrites},
		{"other-ids-replace-those-of-the-file", "internal/parquet/rewrite/base.go", "int(*e.FieldID) != id {", "int(*e.FieldID) < 0 {", rewrites},
		{"new-columns-have-old-ids", "internal/parquet/rewrite/base.go", "		if other, ok := used[id]; ok {\n", "		if other, ok := used[id]; ok && other == \"\" {\n", rewrites},
		{"minima-without-an-order-get-one", "internal/parquet/rewrite/base.go", "				c.MetaData.Statistics.MinValue, c.MetaData.Statistics.MaxValue = nil, nil\n", "				_ = c\n", rewrites},
		{"filters-without-a-length-are-one-short", "internal/parquet/rewrite/base.go", "	return int32(int64(at) + bits), true\n", "	return int32(int64(at) + bits - 1), true\n", rewrites},
		{"old-schemas-hide-new-columns", "internal/parquet/rewrite/base.go", "!slices.Contains(describesAll(), pair.Key)", "pair.Key != \"\"", rewrites},
	}...)
}
