package main

// olderMutants are ways to read wrongly what old writers wrote, or what few write.
func olderMutants() []mutant {
	parquet, scan := []string{"./internal/parquet"}, []string{"./loader/scan"}
	return []mutant{
		{"int96-begins-at-noon", "internal/parquet/int96.go", "	epochDay = 2_440_588\n", "	epochDay = 2_440_587\n", parquet},
		{"int96-rounds-to-zero", "internal/parquet/int96.go", "	if nanos < 0 {\n", "	if nanos < -nanosPerDay {\n", parquet},
		{"int96-wraps-around", "internal/parquet/int96.go", "	return sum, whole/perDay == day && ", "	return sum, ", parquet},
		{"bytes-are-int96", "internal/parquet/promotion.go", "	case *int96Type:\n", "	case *int96Type, *arrow.FixedSizeBinaryType:\n", parquet},
		{"int96-has-an-order", "internal/parquet/statistics.go", "	case *arrow.BinaryType, *arrow.FixedSizeBinaryType:\n", "	case *arrow.BinaryType, *arrow.FixedSizeBinaryType, *int96Type:\n", parquet},
		{"dates-have-zones", "internal/parquet/promotion.go", "		if want.TimeZone == \"\" {\n", "		if want != nil {\n", parquet},
		{"bounds-stay-days", "internal/parquet/statistics.go", "		if c.as.ID() == arrow.TIMESTAMP {", "		if c.as.ID() == arrow.DATE64 {", scan},
		{"tuples-are-not-elements", "internal/parquet/legacy.go", "group.Name() == \"array\" || ", "", parquet},
		{"every-group-is-an-element", "internal/parquet/legacy.go", "		return group.Name() == \"array\" || group.Name() == list.Name()+\"_tuple\"", "		return true", parquet},
		{"repeated-groups-are-not-elements", "internal/parquet/legacy.go", "	case group.Field(0).RepetitionType() == parquet.Repetitions.Repeated:\n", "	case group == nil:\n", parquet},
		{"elements-have-no-id", "internal/parquet/legacy.go", "m.node(within, elementName, from, within.FieldID())", "m.node(within, elementName, from, NoFieldID)", parquet},
		{"maps-of-optional-keys-are-maps", "internal/parquet/legacy.go", " && hasOptionalKey(group):", " && hasOptionalKey(group) && id < -1:", parquet},
		{"maps-are-lists", "internal/parquet/legacy.go", "	if !ok || list.ElemField().Name == mapEntryName {", "	if !ok {", parquet},
		{"frames-have-one-block", "internal/parquet/lz4.go", "		for frame := dst[:plain]; len(frame) > 0; {\n", "		for frame, one := dst[:plain], true; one && len(frame) > 0; one = false {\n", parquet},
		{"frames-may-be-short", "internal/parquet/lz4.go", "	return len(dst) == 0\n", "	return true\n", parquet},
		{"prefixes-are-lost", "internal/parquet/delta_strings.go", "copy(value[prefix:], l.values[:suffix])", "copy(value, l.values[:suffix])", parquet},
		{"deltas-may-be-too-few", "internal/parquet/rewrite.go", "	if n != countDefined(", "	if n < 0 && n != countDefined(", parquet},
		{"blooms-of-one-block", "internal/parquet/bloom.go", "int64((hash>>32)*b.blocks>>32) * bloomBlock", "int64(0*hash*b.blocks) * bloomBlock", parquet},
		{"blooms-need-one-bit", "internal/parquet/bloom.go", "&(1<<(key*salt>>27)) == 0 {", "&(1<<(key*salt>>27)) == 0 && i == 0 {", parquet},
		{"blooms-of-other-units", "internal/parquet/bloom.go", "		return ok && a.Unit == b.Unit\n", "		return ok && b != nil\n", parquet},
		{"bloom-headers-are-not-held", "internal/parquet/bloom.go", "	case length != nil && int64(*length) != begins-at+size:\n", "	case length != nil && *length < 0:\n", parquet},
		{"blooms-stop-at-the-first-value", "internal/parquet/bloom.go", "may || err != nil {\n			return true, err\n		}\n", "may || err != nil {\n			return true, err\n		}\n		break\n", parquet},
		{"or-is-and-of-blooms", "internal/expr/hold.go", "if mayHold(t, holds) != r.all {", "if !mayHold(t, holds) {", []string{"./internal/expr"}},
		{"not-equal-names-values", "internal/expr/hold.go", "return r.test.op != eq || ", "return ", []string{"./internal/expr"}},
		{"blooms-are-not-asked", "loader/scan/file.go", "		if may {\n", "		if may || err == nil {\n", scan},
		{"pages-without-bounds-do-not-count", "internal/parquet/index.go", "	if !knowsUpper {\n", "	if !knowsUpper && !knowsLower {\n", parquet},
		{"null-pages-have-bounds", "internal/parquet/index.go", "		if null {\n", "		if null && i < 0 {\n", parquet},
		{"the-last-page-bounds-all", "internal/parquet/index.go", "if upper == nil || high != nil && compareBounds(high, upper) > 0 {", "if high != nil {", parquet},
		{"indexes-are-not-held", "internal/parquet/index.go", " || len(t.rest) > 0 || !index.whole() {", " {", parquet},
		{"the-page-index-is-not-read", "loader/scan/skip.go", "	return len(indexed) == 0 || ", "	return len(indexed) >= 0 || ", scan},
		{"schemas-may-be-deep", "internal/parquet/depth.go", "			if len(left) > maxSchemaDepth {", "			if len(left) < 0 {", parquet},
		{"runs-are-padded-to-eight", "internal/parquet/rle.go", " || h.packed < duckDBRun && h.run%duckDBRun == 0", "", parquet},
		{"any-run-is-a-block", "internal/parquet/rle.go", " && h.run%duckDBRun == 0", "", parquet},
		{"lengths-may-differ", "internal/parquet/delta_strings.go", "int(prefix)+int(suffixes[i]) != l.width", "int(prefix)+int(suffixes[i]) > l.width", parquet},
	}
}
