package main

// shuffleMutants are ways to permute rows wrongly.
func shuffleMutants() []mutant {
	rows, lane, plan, data := []string{"./loader"}, []string{"./loader/lane", "./loader"}, []string{"./loader/plan", "./loader"}, []string{"./loader/dataset", "./loader/dataset/decode"}
	return []mutant{
		{"windows-begin-with-the-split", "loader/stream/sequences.go", "First: whole.From, Start", "First: 0, Start", rows},
		{"windows-begin-where-reading-does", "loader/stream/sequences.go", "First: whole.From, Start: from.Window", "First: whole.From + from.Window*s.window, Start: 0", rows},
		{"windows-count-rows-that-are-left", "loader/shuffle/shuffle.go", "		if row.window != first.window {\n", "		if int64(to-t.used) >= o.Rows {\n", rows},
		{"windows-are-one-row-longer", "loader/shuffle/shuffle.go", "	return (ordinal - o.First) / o.Rows\n", "	return (ordinal - o.First) / (o.Rows + 1)\n", rows},
		{"rows-before-the-start-are-joined", "loader/shuffle/shuffle.go", "		if row.window >= s.options.Start {\n", "		if row.ordinal >= s.options.First+s.options.Start*s.options.Rows-1 {\n", rows},
		{"priorities-do-not-know-the-epoch", "loader/plan/order.go", "	return binary.BigEndian.Uint64(p.mix(\"row\", p.Splits[split].ID))", "	return uint64(len(p.Splits[split].ID))", rows},
		{"requests-do-not-know-the-epoch", "loader/plan/order.go", "		return binary.BigEndian.Uint64(p.mix(\"request\"))", "		return uint64(p.Rows.Seed)", rows},
		{"priorities-are-by-place-in-a-batch", "loader/shuffle/shuffle.go", "return draw(s.options.Seed, ordinals[row]) }", "return draw(s.options.Seed, int64(row)) }", rows},
		{"null-keys-are-one-request", "joiner/keyreader.go", "			dst[i] = alone(i)\n", "			dst[i] = seed\n", rows},
		{"rows-of-a-request-turn-around", "loader/shuffle/sort.go", "cmp.Compare(a.first, b.first)", "cmp.Compare(b.first, a.first)", rows},
		{"requests-are-rows", "loader/plan/bound.go", "window == 0 || !shuffle.ByRequest() {", "window >= 0 || !shuffle.ByRequest() {", rows},
		{"windows-come-as-stored", "loader/shuffle/sort.go", "	for _, r := range sortRuns(runs) {", "	for _, r := range runs {", rows},
		{"rows-given-before-come-again", "loader/shuffle/windows.go", "	w.batches, w.numbers = w.batches[skip:], w.numbers[skip:]\n", "", rows},
		{"references-come-as-stored", "loader/shuffle/collected.go", "			references[i] = of[c.batches[i]][row]\n", "			references[i] = of[c.batches[i]][min(i+0*int(row), len(of[c.batches[i]])-1)]\n", rows},
		{"dictionaries-of-a-window-are-one", "loader/shuffle/collected.go", "		if dictionaryOf(part).Data() != dictionaryOf(parts[0]).Data() {", "		if part == nil {", []string{"./loader/shuffle", "./loader"}},
		{"every-window-skips", "loader/shuffle/windows.go", "	w.joined.Skip = 0\n", "", rows},
		{"windows-begin-behind-their-rows", "loader/shuffle/windows.go", "	if skip > rows {\n", "	if skip > rows && c != nil {\n", []string{"./loader/shuffle"}},
		{"any-row-of-a-window-will-do", "loader/shuffle/windows.go", "	if skip > rows {\n", "	if skip > rows+rows {\n", []string{"./loader/shuffle"}},
		{"positions-forget-their-window", "loader/stream/progress.go", "Window: at.Window, ", "", rows},
		{"lanes-count-on-in-the-next-window", "loader/lane/lane_reader.go", "		l.at.Window, l.at.Row = window, 0\n", "		l.at.Window = window\n", lane},
		{"windows-are-free", "loader/shuffle/windows.go", "	err := r.GrowWait(ctx, bytes)\n", "	err := ctx.Err()\n", []string{"./loader/shuffle"}},
		{"windows-let-nothing-give-way", "loader/shuffle/windows.go", "r.releasePrefetched != nil && r.releasePrefetched()", "r.releasePrefetched == nil", []string{"./loader/shuffle"}},
		{"ranges-divide-nothing", "loader/stream/sequences.go", "		read.From-- // to know", "		_ = read // to know", rows},
		{"windows-divide-nothing", "loader/shuffle/shuffle.go", "t.last.ordinal == before && ", "t.last.ordinal == before+2 && ", rows},
		{"parked-windows-are-counted-twice", "loader/stream/sequences.go", "		if s.window >= window {", "		if s.window > window {", rows},
		{"dropped-rows-before-a-window-are-forgotten", "loader/stream/sequences.go", "counts: one.joined.Counts(), divided: one.shuffle.DividedRequests()})", "counts: slices.Concat(one.starts, []windowStart{{counts: make([]joiner.Counts, len(one.joined.Counts()))}})[max(0, len(one.starts)-1)].counts, divided: one.shuffle.DividedRequests()})", rows},
		{"plans-do-not-know-their-window", "loader/plan/identity.go", "	rows := p.Rows\n	rows.Pin.Staging", "	rows := p.Rows\n	rows.ShuffleWindow = 0\n	rows.Pin.Staging", plan},
		{"any-order-may-have-a-window", "loader/dataset/decode/query.go", "q.ShuffleWindow != 0 && !q.Order.IsShuffled():", "q.ShuffleWindow < 0 && !q.Order.IsShuffled():", data},
	}
}
