package main

// batchRequestMutants are ways to divide rows into other requests, and to give lanes other
// ones than equal numbers of them.
func batchRequestMutants() []mutant {
	rows, lane, data := []string{"-run", "Request|Grouped|Oracle|Parked|Once", "./loader"}, []string{"./loader/lane", "./loader"}, []string{"./loader/dataset", "./loader/dataset/decode"}
	flight, resolve := []string{"-run", "Request|Grouped", "./flight"}, []string{"./loader/resolve", "./loader"}
	const begins, grouped, shuffle = "loader/lane/byrequest.go", "loader/lane/grouped.go", "loader/shuffle/shuffle.go"
	return []mutant{
		{"requests-end-with-their-batch", begins, "	first := len(r.last) > 0 && r.window == r.Window()\n", "	first := false\n", rows},
		{"null-keys-go-on-in-the-next-batch", begins, "		first = first && key[k].IsValid(0) && ", "		first = first && ", rows},
		{"requests-go-on-from-the-first-row", begins, "	return r.keep(b, rows-1)\n", "	return r.keep(b, 0)\n", rows},
		{"a-request-too-many", begins, "			if out.counted == n {\n				break\n			}\n			out", "			if out.counted == n+1 {\n				break\n			}\n			out", rows},
		{"the-last-request-is-not-looked-behind", begins, "		if l.used < int(l.batch.NumRows()) {\n			break\n", "		if l.used < int(l.batch.NumRows()) || out.counted == n {\n			break\n", rows},
		{"windows-cut-requests", "loader/stream/permuted.go", "func (r *permutedRun) whole() bool { return r.spec.Plan.Rows.Requests }", "func (r *permutedRun) whole() bool { return r.spec.Plan.Rows.Requests && r.number < 0 }", rows},
		{"borders-are-not-moved-to-requests", "loader/stream/border.go", "\t\t*border = at\n", "\t\t*border = max(*border, at*0)\n", rows},
		{"requests-end-where-rows-are-dropped", "loader/stream/border.go", "\t\tin.From = at.To\n", "\t\treturn at.To, nil\n", rows},
		{"rows-behind-a-window-are-of-the-next", shuffle, "\t\tcolumns[len(columns)-2] = within\n", "", rows},
		{"requests-before-a-border-are-near", "loader/stream/border.go", "\t\trow = at.From\n", "\t\treturn shuffle.StoredRow{}, nil\n", rows},
		{"buckets-of-requests-are-cut", "loader/plan/distinct.go", " || p.Rows.Requests }", " }", rows},
		{"plans-of-requests-are-those-of-rows", "loader/plan/identity.go", "	rows := p.Rows\n	rows.Pin.Staging", "	rows := p.Rows\n	rows.Requests = false\n	rows.Pin.Staging", rows},
		{"cursors-of-requests-count-rows", "loader/dataset/canonical.go", "	if c.Requests {\n", "	if c.Requests && c.Given < 0 {\n", data},
		{"rows-are-counted-as-requests", "loader/stream/count.go", "\tif s.spec.Plan.Rows.Requests {\n", "\tif s.spec.Plan.Rows.Requests && index < 0 {\n", rows},
		{"requests-are-counted-as-stored", "loader/stream/count.go", "\tif permuted {\n\t\topens.runs", "\tif permuted && opens.runs != nil {\n\t\topens.runs", rows},
		{"left-over-requests-are-rows", "loader/stream/report.go", "Leftover{Lane: l.Number, Requests: left}", "Leftover{Lane: l.Number, Rows: left}", rows},
		{"splits-of-requests-count-rows", "loader/stream/progress.go", "\tp := s.progress()\n\tc := ", "\tp := s.progress()\n\tif !s.spec.Part.IsZero() {\n\t\tp.perLane = s.rows\n\t}\n\tc := ", rows},
		{"requests-may-have-a-limit", "loader/dataset/check_query.go", "	case q.Limit != 0:\n		add(\"limit\", \"it counts rows", "	case q.Limit < 0:\n		add(\"limit\", \"it counts rows", rows},
		{"cursors-of-rows-go-on-in-requests", "loader/dataset/check_query.go", "	case len(q.Cursor) > 0 && !q.Cursor[0].Requests:\n", "	case len(q.Cursor) < 0:\n", data},
		{"cursors-count-both", "loader/dataset/decode/cursor.go", "	case rows && requests:\n", "	case rows && requests && at.kind != kindObject:\n", data},
		{"lists-begin-in-their-run", grouped, "			offsets = append(offsets, before+row)\n", "			offsets = append(offsets, row)\n", rows},
		{"requests-have-the-first-ones-values", grouped, "			rows[i] = all.Row(int(row))\n", "			rows[i] = all.Row(int(x.begins[0]) + 0*int(row))\n", rows},
		{"once-is-believed", grouped, "		if at >= 0 {\n", "		if at > 1<<30 {\n", rows},
		{"once-is-believed-from-batch-to-batch", grouped, "	if n := before.Len(); n > 0 {\n", "	if n := before.Len(); n < 0 {\n", rows},
		{"staging-rows-are-believed", grouped, "same[i] = a == b || batch.SameRow(here.Values, int(a), here.Values, int(b))", "same[i] = a == b || true", rows},
		{"repeated-rows-are-once", "loader/resolve/grouped.go", " || s.Duplicates.Multiply() {", " {", resolve},
		{"any-staging-table-is-once", "loader/resolve/grouped.go", "return !r.ofRequest(k.Training.ID) })", "return k.Training.ID < 0 })", resolve},
		{"latest-rows-are-once", "loader/resolve/grouped.go", "	if s.Time != nil || s.Align", "	if s.Align", resolve},
		{"dense-columns-are-once", "loader/resolve/grouped.go", "return !r.oncePerRequest(c) })", "return len(c.Name) == 0 })", resolve},
		{"grouped-rows-are-those-of-the-batch", "flight/get.go", "source.RecordBatch(), source.BatchRows())", "source.RecordBatch(), source.RecordBatch().NumRows())", flight},
		{"requests-are-rows-in-flight-info", "flight/info.go", "	case p.counts != nil && !p.Rows.Requests:\n", "	case p.counts != nil:\n", flight},
		{"where-requests-begin-is-free", begins, "	if more := bytes - r.held.Held(); more > 0 {\n", "	if more := bytes - r.held.Held(); more > 1<<40 {\n", lane},
	}
}
