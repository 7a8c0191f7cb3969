package main

// foreignMutants are ways to read wrongly columns of types that Iceberg does not write.
func foreignMutants() []mutant {
	const named = "Foreign|AnyWidth|TimesThat|Nulls|TwoColumns|StructsOfOther|Bloom|FilesThatNoMapping|RefusedTypes"
	parquet, scan := []string{"-run", named, "./internal/parquet"}, []string{"-run", named, "./loader/scan"}
	both := []string{"-run", named, "./internal/parquet", "./loader/scan"}
	return []mutant{
		{"unsigned-ints-are-small", "internal/parquet/legacy.go", "logical.BitWidth() <= maxNarrowBits {", "logical.BitWidth() <= 2*maxNarrowBits {", parquet},
		{"shorts-are-not-integers", "internal/parquet/legacy.go", "const maxNarrowBits = 16\n", "const maxNarrowBits = 8\n", parquet},
		{"annotated-nulls-are-values", "internal/parquet/foreign.go", "	if nulls < n {\n", "	if n < 0 {\n", parquet},
		{"ints-are-not-dates", "internal/parquet/promotion.go", "		return unchanged, want.ID() == arrow.DATE32 //", "		return unchanged, false //", parquet},
		{"longs-are-nanoseconds", "internal/parquet/promotion.go", "		return unchanged, want.Unit == arrow.Microsecond\n", "		return unchanged, true\n", parquet},
		{"zones-do-not-match", "internal/parquet/conversion.go", "		if ts, ok := stored.(*arrow.TimestampType); ok {\n", "		if ts, ok := stored.(*arrow.TimestampType); ok && ts.TimeZone == wanted.TimeZone {\n", both},
		{"millis-of-a-day-are-micros", "internal/parquet/foreign.go", "const microsPerMilli = 1000\n", "const microsPerMilli = 1\n", parquet},
		{"millis-are-micros", "internal/parquet/conversion.go", "		u.mul = to / from\n", "		u.mul = 1\n", both},
		{"nanos-are-rounded", "internal/parquet/conversion.go", "		return v / u.div, v%u.div == 0\n", "		return v / u.div, true\n", parquet},
		{"bounds-of-millis-are-micros", "internal/parquet/statistics.go", "		return v * 1000\n", "		return v\n", both},
		{"bounds-of-nanos-are-micros", "internal/parquet/statistics.go", "		q := v / 1000\n", "		q := v\n", both},
		{"nanos-of-a-day-need-no-proof", "internal/parquet/file.go", "f.isTimeNanos(leaf) && !f.statisticsProveNanos(leaf) {", "f.isTimeNanos(leaf) && leaf < 0 {", parquet},
		{"early-times-prove-nanos", "internal/parquet/foreign.go", "	return !other\n", "	return true\n", parquet},
		{"digits-are-not-counted", "internal/parquet/foreign.go", "!values[i].FitsInPrecision(want.Precision)", "!values[i].FitsInPrecision(38)", parquet},
		{"widths-leave-gaps-of-nulls", "internal/parquet/foreign.go", "		if validity == nil || bitutil.BitIsSet(validity, offset+i) {\n			end +=", "		if validity == nil || i >= 0 {\n			end +=", parquet},
		{"widths-forget-the-offset", "internal/parquet/foreign.go", "stored[(offset+i)*width:(offset+i+1)*width]", "stored[i*width:(i+1)*width]", parquet},
		{"blooms-of-longs-as-nanos", "internal/parquet/bloom.go", "ok && b.Unit == arrow.Microsecond\n", "ok && b != nil\n", parquet},
		{"blooms-of-dates-are-not-asked", "internal/parquet/bloom.go", " || want.ID() == arrow.DATE32\n", "\n", parquet},
		{"one-id-for-two-columns", "internal/parquet/field.go", "	return columns > 1\n", "	return columns < 0\n", parquet},
		{"structs-of-other-fields-are-there", "internal/parquet/name_mapping.go", "		id = n.unmapped()\n	default:\n", "	default:\n", parquet},
		{"incomplete-mappings-are-complete", "internal/parquet/name_mapping.go", " && mapped > 0 && !element:", " && mapped >= 0 && !element:", both},
		{"elements-may-be-absent", "internal/parquet/name_mapping.go", " && mapped > 0 && !element:", " && mapped > 0:", both},
		{"keys-are-hashed-as-stored", "internal/parquet/conversion.go", "		u.div = from / to\n", "		u.div = 1\n", scan},
	}
}
