package main

// parallelStageMutants write partitions at the same time that depend on each other, or lose those that must wait.
func parallelStageMutants() []mutant {
	stages, files, inputs := []string{"./loader/stage"}, []string{"./internal/parquet/write"}, []string{"./internal/parquet/records"}
	return []mutant{
		{"stage-partitions-choose-at-any-time", "loader/stage/parallel.go", "	if i > w.first {\n		select", "	if i < 0 {\n		select", stages},
		{"stage-partitions-without-memory-are-lost", "loader/stage/parallel.go", "		w.left[i], err = true, nil\n", "		err = nil\n", stages},
		{"stage-partitions-are-written-twice", "loader/stage/parallel.go", "		if writers > 1 && !w.left[i] {\n", "		if writers > 1 && i < 0 {\n", stages},
		{"stage-partitions-keep-old-files", "loader/stage/partition_files.go", "	p.discard(ctx)\n	p.count(-p.rows", "	p.count(-p.rows", stages},
		{"stage-partitions-list-old-files", "loader/stage/partition_files.go", "	p.added = nil\n", "", stages},
		{"stage-counts-old-files", "loader/stage/partition_files.go", "	p.count(-p.rows, -len(p.added), -p.bytes)\n", "", stages},
		{"stage-partitions-wait-for-no-choice", "loader/stage/parallel.go", "			if w.left[w.first] && !isClosed(w.choice.Made()) {\n", "			if w.left[w.first] && i < 0 {\n", stages},
		{"files-are-compressed-little", "internal/parquet/write/choose.go", "	if sum > slow+slow*levelPercent/100 {\n", "	if sum < slow {\n", files},
		{"files-are-compressed-slowly", "internal/parquet/write/choose.go", "	if sum > slow+slow*levelPercent/100 {\n", "	if sum > 0 {\n", files},
		{"row-groups-are-read-ahead-without-limit", "internal/parquet/records/row_group.go", "a.used+bytes > a.limit", "a.used+bytes < 0", inputs},
		{"row-groups-end-with-the-first", "internal/parquet/records/records.go", "	r.open.started++\n", "	r.open.started = r.open.parquet.NumRowGroups()\n", inputs},
		{"row-groups-keep-their-pages", "internal/parquet/records/row_group.go", "	defer held.Shrink(pages)\n", "", inputs},
		{"row-groups-hide-errors", "internal/parquet/records/records.go", "		if g.err != nil {\n			return nil, g.err\n", "		if g.err != nil {\n			return nil, nil\n", inputs},
	}
}
