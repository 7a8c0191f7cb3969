package main

// requestMutants are ways to send the columns of a request, dense columns, and what auto
// chooses, wrongly.
func requestMutants() []mutant {
	lane, rows, data, flight := []string{"./loader/lane", "./loader"}, []string{"./loader"}, []string{"./loader/dataset", "./loader/dataset/decode"}, []string{"./flight"}
	cells, resolve := []string{"./internal/batch", "./loader"}, []string{"./loader/resolve", "./loader"}
	return []mutant{
		{"values-of-another-request", "loader/lane/requests.go", "		case e.hash == hash && r.same(r.rows[e.slot-1], here):\n", "		case e.hash == hash || r.same(r.rows[e.slot-1], here):\n			r.last = e.slot - 1\n			return r.last, nil\n		case at > mask:\n", lane},
		{"requests-by-hash-alone", "loader/lane/requests.go", "return sameRow(r.of[a.number].keys, int(a.row), r.of[b.number].keys, int(b.row)) < 0", "return r.hash(a)&7 == r.hash(b)&7", lane},
		{"the-last-request-takes-all", "loader/lane/requests.go", "	if r.last >= 0 && r.same(r.rows[r.last], here) {", "	if r.last >= 0 {", lane},
		{"constancy-is-believed", "loader/lane/requests.go", "	if differs < 0 {\n		return nil", "	if differs < 1<<30 {\n		return nil", lane},
		{"constancy-of-the-first-column", "loader/lane/requests.go", "	for k := range a {\n		if !batch", "	for k := range a[:min(1, len(a))] {\n		if !batch", lane},
		{"neighbours-are-believed", "loader/lane/requests.go", "		return r.last, r.check(r.rows[r.last], here)\n	}\n	hash", "		return r.last, nil\n	}\n	hash", lane},
		{"null-keys-are-equal", "loader/lane/requests.go", "		if k.IsNull(int(at.row)) {\n			return true", "		if k.IsNull(int(at.row)) {\n			return false", lane},
		{"null-keys-repeat", "internal/batch/repeats.go", "same[i] = same[i] && column.IsValid(i)", "same[i] = same[i] && (i > 0 || column.IsValid(i))", rows},
		{"requests-of-the-last-batch", "loader/lane/requests.go", "		clear(r.table)\n", "		_ = r.table\n", lane},
		{"a-request-has-one-key-column", "internal/batch/repeats.go", "	for _, column := range key {\n", "	for _, column := range key[:1] {\n", rows},
		{"rows-repeat-by-key-alone", "loader/joined/requests.go", "	for _, at := range r.values {\n		batch.Repeats", "	for _, at := range r.values[:0] {\n		batch.Repeats", rows},
		{"keys-are-the-first-fields", "loader/joined/requests.go", "r.Key = append(r.Key, len(in.values)+i)", "r.Key = append(r.Key, i)", rows},
		{"rows-of-their-own-batch-are-free", "loader/lane/selection.go", "	if err := s.reserve(ctx, s.kept.Add(x.batch.Columns())); err != nil || s.requests == nil {", "	if err := s.reserve(ctx, s.kept.Add(x.batch.Columns())); err != nil || s.requests != nil {", []string{"./loader/lane"}},
		{"windows-have-a-row-without-a-request", "loader/shuffle/collected.go", "		own := c.joined.refersToItself(number)", "		own := number < 0", rows},
		{"overlays-replace-request-columns", "loader/resolve/request.go", "r.Outputs[at].Request = true", "r.Outputs[at].Request = len(r.Dataset.Staging) != 1", rows},
		{"request-columns-stand-where-they-stood", "loader/resolve/wire.go", "if o.Table == TrainingTable && place.Indexed < 0 {", "if o.Table == TrainingTable {", rows},
		{"request-may-stand-twice", "loader/resolve/wire.go", "o.Table == TrainingTable && !o.Request\n", "o.Table != TrainingTable\n", rows},
		{"lists-are-as-long", "internal/batch/same.go", "		if length != int(y[j+k+1]-y[j+k]) || ", "		if length > int(y[j+k+1]-y[j+k]) || ", cells},
		{"nulls-are-values", "internal/batch/same.go", "		if is != (y == nil || bitutil.BitIsSet(y, j+k)) || is && ", "		if is && ", cells},
		{"structs-by-their-first-field", "internal/batch/same.go", "		for k, child := range a.Children() {", "		for k, child := range a.Children()[:min(1, len(a.Children()))] {", cells},
		{"lists-repeat-by-length", "internal/batch/repeats.go", "same[i] = from-before == to-from && ", "same[i] = from-before == to-from || ", cells},
		{"sliced-columns-repeat-from-the-start", "internal/batch/repeats.go", "	offsets := all[d.Offset():]\n", "	offsets := all\n", cells},

		{"dense-columns-in-another-order", "internal/batch/pack.go", "out: out[k:], width", "out: out[width-1-k:], width", cells},
		{"nulls-are-filled-silently", "internal/batch/pack.go", "		case p.fill != nil:\n			v, ok = *p.fill, true\n", "		default:\n			ok = true\n			if p.fill != nil {\n				v = *p.fill\n			}\n", cells},
		{"dense-infinity", "internal/batch/pack.go", "	return infinite(float64(v)) || !infinite(float32(v))", "	return true", cells},
		{"dense-is-sent-beside", "loader/resolve/dense.go", "	if s.Columns == nil {\n		outputs", "	if s.Columns != nil {\n		outputs", rows},
		{"dense-of-all-tables-is-of-the-first", "loader/resolve/dense.go", "func(o Output) bool { return o.Table != of[0].Table }", "func(o Output) bool { return false && o.Table != of[0].Table }", rows},
		{"dense-of-some-request-columns-is-theirs", "loader/resolve/dense.go", "out.Request = !slices.ContainsFunc(of, func(o Output) bool { return !o.Request })", "out.Request = slices.ContainsFunc(of, func(o Output) bool { return o.Request })", rows},
		{"dense-packs-anything", "loader/resolve/dense.go", "		if !number(o.Type()) {", "		if o.Type() == nil {", resolve},
		{"dense-forgets-its-fill", "loader/dataset/dense.go", "		if one.Fill != nil {\n			value", "		if one.Fill == nil {\n			value", data},
		{"dense-columns-are-not-looked-at", "loader/plan/bound.go", "slices.Concat(resolve.Leaves(outputs), b.PostJoinColumns)", "slices.Concat(outputs, b.PostJoinColumns)", rows},

		{"auto-decides-again", "loader/stream/layout.go", "\tif !s.layout.decided && s.err == nil {", "\tif (!s.layout.decided || s.reader == nil) && s.err == nil {", rows},
		{"auto-indexes-all", "loader/stream/layout.go", "		if w.Indexed < w.Plain {", "		if w.Indexed >= 0 {", rows},
		{"auto-forgets-the-index", "loader/lane/weigh.go", "w := d.end(), Weight{Indexed: int64(rows) * int64(arrow.Int32SizeBytes)}", "w := d.end(), Weight{Indexed: int64(rows - rows)}", rows},
		{"auto-loses-the-rows-it-weighed", "loader/lane/lane.go", "	if r.pending == nil {\n		if err := r.skip()", "	if r.pending == nil || r.step == 0 {\n		if err := r.skip()", rows},
		{"auto-parks-behind-what-it-weighed", "loader/lane/lane.go", "	if r.pending != nil {\n		return r.pending.before\n	}\n", "", rows},
		{"auto-sends-the-plain-schema", "flight/get.go", "	if err := o.slot.within(ctx, source.Begin, o.setBack); err != nil {\n		return err\n	}\n	frames := newFrames(source.Schema())", "	frames := newFrames(source.Schema())", flight},
	}
}
