package main

// codeMutants break texts that come as codes: their dictionaries are mixed up, nulls get values, values
// that are compared have codes, and memory is not charged, or too often.
func codeMutants() []mutant {
	gather, decode := []string{"-run", "Coded|Recode", "./internal/batch"}, []string{"-run", "Code|Dictionar", "./internal/parquet"}
	const coded, recode, category = "internal/batch/coded.go", "internal/batch/recode.go", "internal/batch/category.go"
	const codes, projection, staging = "internal/parquet/codes.go", "loader/scan/projection.go", "loader/joined/staging.go"
	scan, join := []string{"-run", "Code|ChargeDict", "./loader/scan"}, []string{"-run", "Code|Oracle", "./joiner"}
	return []mutant{
		{"codes-of-nulls-have-values", coded, "	if p.nullness() != noNulls {\n", "	if p.nullness() == firstNulls {\n", gather},
		{"short-values-are-cut", coded, "	if to-from <= shortValue &&", "	if to-from <= shortValue+1 &&", gather},
		{"short-values-overrun", coded, "from+shortValue <= len(src) && shortValue", "from+shortValue-1 <= len(src) && shortValue", gather},
		{"slices-of-codes-begin-at-their-dictionary", coded, "bytesOf(data.Buffers()[1])[base*width:]", "bytesOf(data.Buffers()[1])", gather},
		{"codes-never-differ", coded, "		if !bytes.Equal(valueAt(a, i+k), valueAt(b, j+k)) {\n", "		if !bytes.Equal(valueAt(a, i+k)[:0], valueAt(b, j+k)[:0]) {\n", gather},
		{"dictionaries-are-merged-by-position", recode, "codes[i] = r.code(stringAt(data, data.Offset()+i))", "codes[i] = int32(i)\n				r.code(stringAt(data, data.Offset()+i))", gather},
		{"merged-nulls-have-values", recode, "		if c.valid == nil || bit(", "		if c.valid == nil || len(c.valid) > 0 || bit(", gather},
		{"narrow-codes-overflow", recode, "n <= math.MaxUint8+1:", "n <= 2*math.MaxUint8:", gather},
		{"merged-columns-may-grow", recode, "r.plainBytes() < r.codedBytes()", "r.plainBytes() < 0", gather},
		{"row-0-has-no-default", recode, "		codes[0] = C(r.codes[r.first.Data()][0])\n", "", gather},
		{"categories-keep-their-file's-order", category, "		for i := range codes {\n			codes[i] = noCode\n", "		for i := range codes {\n			codes[i] = c.code(stringAt(dictionary, dictionary.Offset()+i))\n", gather},
		{"indices-beyond-the-dictionary-are-codes", codes, "c.indices.numbers(out[at:at+present], c.entries)", "c.indices.numbers(out[at:at+present], c.entries+1<<20)", decode},
		{"plain-pages-come-as-codes", codes, "c.coded && !pages.hasValues &&", "c.coded &&", decode},
		{"rare-values-come-as-codes", codes, "pages.dictionary.values*int64(r.opts.MinRepeats) <=", "pages.dictionary.values <=", decode},
		{"dictionaries-are-free", codes, "	if err := r.account.reserve(int64(size), 0); err != nil {\n		return nil, err\n	}\n", "", decode},
		{"dictionaries-stay-charged", codes, "	d.reserved.Release()\n", "", decode},
		{"dictionaries-are-charged-per-batch", "loader/scan/walk.go", "		return batch.OwnSize(out), 0\n", "		return batch.Size(out), 0\n", scan},
		{"filtered-texts-come-as-codes", projection, "		looked[f.ID] = true\n", "", scan},
		{"checked-texts-come-as-codes", projection, "		looked[key.ID] = true\n", "", scan},
		{"deleted-texts-come-as-codes", projection, "				looked[c.ID] = true\n", "", scan},
		{"keys-come-as-codes", staging, "looked := c.at < len(in.bound.Keys) ||", "looked := c.at < 0 ||", []string{"-run", "TestOracle$|TestCodesGive", "./loader"}},
		{"orders-come-as-codes", staging, "		looked := c.at < len(in.bound.Keys) || in.spec.Time != nil && *in.spec.Time == c.at ||\n			slices.ContainsFunc(in.spec.OrderBy, func(o joiner.Order) bool { return o.Column == c.at })\n", "		looked := c.at < len(in.bound.Keys)\n", []string{"-run", "TestOracle$|TestCodesGive", "./loader"}},
		{"codes-of-keys-are-read-as-values", "joiner/input.go", "if slices.Contains(in.Columns, i) && !slices.Contains(in.Key, i) {", "if slices.Contains(in.Columns, i) {", join},
		{"codes-of-orders-are-read-as-values", "joiner/build.go", "if i >= len(b.fields) && batch.IsCoded(arrays[i]) {", "if i < 0 {", join},
	}
}
