package main

// splitMutants are ways to go on from a cursor with another plan, and to read another
// part of one.
func splitMutants() []mutant {
	dataset, loader, lane, flight := []string{"./loader/dataset", "./loader/dataset/decode"}, []string{"./loader"}, []string{"./loader/lane", "./loader"}, []string{"./flight"}
	return []mutant{
		{"a-zero-is-not-said", "loader/dataset/decode/resume.go", "one.Field != \"filter\" {", "one.Field != \"filter\" && one.A != \"0\" {", dataset},
		{"a-cursors-seed-is-not-taken", "loader/dataset/rows.go", "	r.Seed = cmp.Or(r.Seed, c.Seed)\n", "", dataset},
		{"a-cursors-epoch-is-not-taken", "loader/dataset/rows.go", "	r.Epoch = cmp.Or(r.Epoch, c.Epoch)\n", "", dataset},
		{"a-cursors-order-is-not-taken", "loader/dataset/rows.go", "	r.Order = cmp.Or(r.Order, c.Order)\n", "", dataset},
		{"a-cursors-filter-is-not-taken", "loader/dataset/rows.go", "	if r.Filter.IsZero() {\n", "	if !r.Filter.IsZero() {\n", dataset},
		{"a-cursors-sample-is-not-taken", "loader/dataset/rows.go", "	if r.Sample == nil {\n", "	if r.Sample != nil {\n", dataset},
		{"another-seed-than-the-cursors-passes", "loader/dataset/rows.go", "		{\"seed\", strconv.FormatInt(r.Seed, 10)},\n", "", dataset},
		{"no-filter-agrees-with-any", "loader/dataset/decode/resume.go", "q.Filter.IsZero() && !c.Filter.IsZero() {", "q.Filter.IsZero() && c.Filter.IsZero() {", dataset},
		{"a-split-is-read-twice", "loader/plan/part.go", "To: to})", "To: min(splits, to+1)})", loader},
		{"a-split-is-lost", "loader/plan/part.go", "To: to})", "To: max(split, from) + 1})", loader},
		{"the-last-split-is-lost", "loader/plan/part.go", "(i+1)*splits/count; to > split", "(i+1)*(splits-1)/count; to > split", loader},
		{"a-cursors-split-is-read-whole", "loader/plan/part.go", "From: max(from, split)", "From: from", loader},
		{"parts-have-no-end", "loader/stream/part.go", "	only.Ranges = only.Ranges[:part.To]\n", "", loader},
		{"rows-of-splits-count-from-each", "loader/stream/part.go", "		s.rows = p.RowsBefore(dataset.Position{Range: part.From})\n", "		s.rows = p.RowsBefore(dataset.Position{})\n", loader},
		{"rows-of-splits-are-known", "loader/stream/part.go", "	s.uneven = p.Inexact != \"\" && part.From > 0\n", "", loader},
		{"last-batches-of-splits-are-full", "loader/stream/step.go", "\tif s.ended(p.at) {\n", "\tif s.ended(p.at) && s.spec.Part.IsZero() {\n", loader},
		{"tickets-forget-their-splits", "flight/get.go", "Part: p.part, Peer:", "Part: plan.Part{}, Peer:", flight},
		{"endpoints-of-splits-forget-the-cursor", "flight/splits.go", "		if part.From > at.Range {\n", "		if part.From >= at.Range {\n", flight},
		{"rows-behind-a-cursor-are-told-twice", "flight/splits.go", " - p.RowsBefore(at)\n", " - p.RowsBefore(dataset.Position{Range: at.Range})\n", flight},
		{"limit-off-by-one", "loader/lane/lane.go", "	return r.options.Limit - r.rows\n", "	return r.options.Limit - r.rows + 1\n", lane},
		{"limits-count-from-the-plans-start", "loader/stream/stream.go", "s.spec.Reading.Limit-s.rows),", "s.spec.Reading.Limit-s.rows-s.start.rows),", loader},
		{"limits-look-ahead", "loader/lane/lane.go", "		if out.rows == left {\n", "		if out.rows == left-left {\n", lane},
		{"limits-cut-no-step", "loader/lane/lane.go", "	if given.cut {\n", "	if given.cut && given.rows == 0 {\n", lane},
		{"cut-steps-are-even", "loader/lane/lane.go", "		r.uneven = len(r.lanes) > 1\n", "", lane},
		{"uneven-lanes-end-together", "loader/stream/start.go", "	if s.uneven && r.Tail.Drops() {\n", "	if s.uneven && r.Limit > 0 {\n", loader},
		{"uneven-lanes-are-forgotten", "loader/stream/start.go", "		s.uneven = s.uneven || c.Uneven\n", "", loader},
		{"limits-are-not-told", "flight/info.go", "\tif limit := p.Query.Limit; limit > 0 && rows > limit {\n", "\tif limit := p.Query.Limit; limit < 0 && rows > limit {\n", flight},
		{"global-batch-rows-are-not-divided", "loader/stream/batchrows.go", "r.GlobalBatchRows / max(1, r.Shard.Of)", "r.GlobalBatchRows", loader},
		{"global-batch-rows-that-fit-are-of-a-shard", "loader/stream/batchrows.go", "by.Field, by.Batches*wholeSteps", "by.Field, wholeSteps", loader},
	}
}
