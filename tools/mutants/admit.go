package main

// admitMutants let files take more memory than was reserved for them.
func admitMutants() []mutant {
	parquet, scanned := []string{"./internal/parquet"}, []string{"-run", "Hostile|Long|Totals|Filter", "./loader/scan"}
	return []mutant{
		{"decoders-take-before-they-ask", "internal/parquet/account.go", "	if !m.tryTake(n) {\n", "	if !m.tryTake(n) && n < 0 {\n", parquet},
		{"what-decoders-keep-is-nobodys", "internal/parquet/decoder_allocator.go", "	t.kept += moved\n", "	t.kept += 0 * moved\n", parquet},
		{"reallocation-is-free", "internal/parquet/account.go", "	return int64(size), int64(len(b))\n", "	return int64(max(size-len(b), 0)), int64(max(len(b)-size, 0))\n", parquet},
		{"frames-take-what-they-say", "internal/parquet/codec.go", "WithDecodeAllCapLimit(true)", "WithDecodeAllCapLimit(false)", parquet},
		{"blocks-take-what-they-say", "internal/parquet/codec.go", "length > uint64(len(dst)) {", "length > 1<<60 {", parquet},
		{"pages-may-declare-more-than-their-footer", "internal/parquet/page_stats.go", "c.uncompressed-c.dictionary.bytes > described.TotalUncompressedSize+c.headerBytes:\n", "c.uncompressed > 1<<60:\n", scanned},
		{"dictionaries-come-out-whole", "internal/parquet/batch_limit.go", "r.rowsFor(&c, valueBytes))\n	return nil", "r.rowsFor(&c, valueBytes/1024))\n	return nil", scanned},
		{"deltas-take-what-they-say", "internal/parquet/delta.go", " || block/blocks > maxMiniblock {", " {", scanned},
		{"copies-of-filtered-rows-are-nobodys", "loader/scan/walk.go", "	if err := w.queue.admitOrGiveUp(ctx, copied, copied); err != nil {\n		return nil, 0, err\n	}\n	out, err := batch.Filter(whole, w.pass, w.scanner.options.Memory)\n	return out, admitted + copied, err\n", "	copied -= copied\n	out, err := batch.Filter(whole, w.pass, w.scanner.options.Memory)\n	return out, admitted, err\n", scanned},
	}
}
