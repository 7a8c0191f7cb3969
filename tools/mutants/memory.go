package main

// memoryMutants break how memory is given back, and how pages without checksums
// are told from others.
func memoryMutants() []mutant {
	batch, command, parquet := []string{"./internal/batch"}, []string{"./cmd/penstock"}, []string{"./internal/parquet"}
	loader := []string{"-run", "BuildSides", "./loader"}
	return []mutant{
		{"pools-forget-what-was-used", "internal/batch/pool.go", "	p.idle[n] = min(p.idle[n], last)\n", "", batch},
		{"pools-give-up-what-was-used", "internal/batch/pool.go", "		p.discard(n, p.idle[n])\n", "		p.discard(n, len(p.classes[n]))\n", batch},
		{"parts-keep-who-opened-them", "joiner/spill/partitionwriter.go", "	w.out.in.Open = nil // partitions", "	// partitions", loader},
		{"files-are-named-by-their-scan", "loader/joined/rows.go", "			files = rows.Files()\n", "			files = func(row int64) string { return rows.Files()(row) }\n", loader},
		{"free-memory-of-the-next-class-stays", "internal/batch/pool.go", "	if len(p.classes[n]) == 0 && n < classCount-1 {\n", "	if n < 0 {\n", batch},
		{"streams-are-stopped-to-collect", "cmd/penstock/memory.go", "	if !happened && m.due {\n", "	if m.due {\n", command},
		{"one-pool-alone-counts", "cmd/penstock/memory.go", "		happened = happened || used\n", "		happened = used\n", command},
		{"the-heap-has-the-budget-alone", "cmd/penstock/memory.go", "	limit := budget + budget/4 + heapBeside\n", "	limit := budget + heapBeside\n", command},
		{"one-checksum-is-enough", "internal/parquet/page_stats.go", "c.lacksChecksum = c.lacksChecksum || h.crc == nil", "c.lacksChecksum = h.crc == nil", parquet},
		{"required-checksums-are-optional", "internal/parquet/reader.go", "	if r.opts.RequireChecksums {\n", "	if r.opts.RequireChecksums && r.group.left == 0 {\n", parquet},
	}
}
