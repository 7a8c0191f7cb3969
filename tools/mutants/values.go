package main

// valueMutants break how values are read, filtered, sampled and shaped.
func valueMutants() []mutant { //nolint:funlen // a table
	return []mutant{
		{
			"sample-digits-not-reversed", "internal/bucket/position.go",
			"bits.Reverse32(uint32(hash&maxInt32))>>1",
			"uint32(hash&maxInt32)",
			[]string{"./internal/bucket", "./loader/plan"},
		},
		{
			"sample-never-wraps", "internal/bucket/position.go",
			"		return position >= from || position < to\n	}\n	return",
			"		return position >= from && position < to\n	}\n	return",
			[]string{"./internal/bucket", "./loader/plan"},
		},
		{
			"sample-range-includes-its-end", "internal/bucket/position.go",
			"	return position >= from && position < to\n}",
			"	return position >= from && position <= to\n}",
			[]string{"./internal/bucket"},
		},
		{
			"sample-of-nulls-by-what-lies-below", "internal/bucket/position.go",
			"			hashes[i] = 0\n",
			"",
			[]string{"./internal/bucket"},
		},
		{
			"sample-prunes-a-bucket-too-many", "internal/bucket/position.go",
			"	return from < to && after > from && first < to\n",
			"	return from < to && after > from && after < to\n",
			[]string{"./internal/bucket"},
		},
		{
			"sample-prunes-the-null-bucket", "internal/bucket/position.go",
			"		return InRange(0, from, to)\n",
			"		return false\n",
			[]string{"./internal/bucket"},
		},
		{
			"lot-by-place-in-the-batch", "loader/plan/sample.go",
			"lot(file, first+int64(row)) < s.Rate",
			"lot(file, int64(row)) < s.Rate",
			[]string{"./loader/plan", "./loader/scan"},
		},
		{
			"lot-the-same-in-every-file", "loader/plan/sample.go",
			"	return float64(bucket.Mix(file+bucket.Mix(",
			"	return float64(bucket.Mix(0*file+bucket.Mix(",
			[]string{"./loader/plan"},
		},
		{
			"rate-of-all-rows", "loader/plan/sample.go",
			"drawn := at < len(where) && where[at] == row",
			"drawn := at >= 0",
			[]string{"./loader/plan"},
		},
		{
			"scan-forgets-the-sample", "loader/scan/walk.go",
			"		w.pass, err = w.source.Sample.Keep(w.pass, b, w.pass, of.want.File.Location, of.first)\n",
			"",
			[]string{"./loader/scan"},
		},
		{
			"sample-row-numbers-of-the-range", "loader/scan/file.go",
			"	r.first = r.row\n",
			"	r.first = r.row - r.want.From\n",
			[]string{"./loader/scan"},
		},
		{
			"one-checked-key-is-enough", "loader/scan/check.go",
			"			all = append(all, &checker{at: at, column: p.read[at], bucket: b})\n",
			"			all = []*checker{{at: at, column: p.read[at], bucket: b}}\n",
			[]string{"./loader/scan"},
		},
		{
			"like-ignores-not", "internal/expr/like.go",
			"bytes.HasPrefix(at(i), prefix) != p.negated",
			"bytes.HasPrefix(at(i), prefix)",
			[]string{"./internal/expr"},
		},
		{
			"like-prunes-by-the-prefix-alone", "internal/expr/like.go",
			"	case hasUpper && upper < p.prefix:\n",
			"	case hasUpper && upper <= p.prefix:\n",
			[]string{"./internal/expr"},
		},
		{
			"like-prunes-what-follows-the-prefix", "internal/expr/like.go",
			"lower <= p.prefix || strings.HasPrefix(lower, p.prefix)",
			"lower <= p.prefix",
			[]string{"./internal/expr"},
		},
		{
			"not-like-prunes-by-one-bound", "internal/expr/like.go",
			"!strings.HasPrefix(lower, p.prefix) || !strings.HasPrefix(upper, p.prefix)",
			"!strings.HasPrefix(lower, p.prefix)",
			[]string{"./internal/expr"},
		},
		{
			"last-takes-the-first", "internal/batch/truncate.go",
			"return max(from, to-n), to }",
			"return from, min(to, from+n) }",
			[]string{"./internal/batch"},
		},
		{
			"cut-lists-keep-what-nulls-hide", "internal/batch/truncate.go",
			"			to = from\n",
			"",
			[]string{"./internal/batch"},
		},
		{
			"cast-loses-large-integers", "internal/batch/cast.go",
			"return float32(v), holds(float64(float32(v)), int64(v))",
			"return float32(v), true",
			[]string{"./internal/batch"},
		},
		{
			"cast-cuts-fractions", "internal/batch/cast.go",
			"f >= -limit64 && f < limit64 && float64(int64(f)) == f",
			"f >= -limit64 && f < limit64",
			[]string{"./internal/batch"},
		},
		{
			"cast-to-infinity", "internal/batch/cast.go",
			"return float32(v), infinite(v) || !infinite(float32(v))",
			"return float32(v), true",
			[]string{"./internal/batch"},
		},
		{
			"cast-cuts-times-of-day", "internal/batch/cast.go",
			"return v / (to / from), v%(to/from) == 0",
			"return v / (to / from), true",
			[]string{"./internal/batch"},
		},
		{
			"structs-forget-their-nulls", "internal/parquet/nested.go",
			"s.Buffers()[0].Bytes(), starts[i], n)",
			"s.Buffers()[0].Bytes(), starts[i], 0)",
			[]string{"./internal/parquet"},
		},
		{
			"required-inside-optional-is-required", "loader/catalog/icebergcat/column/types.go",
			"f.Required && parent.Required",
			"f.Required",
			[]string{"./loader/catalog/icebergcat"},
		},
		{
			"gatherer-shares-too-much", "internal/batch/gather.go",
			"at := indicesKey{&s.Indices[0], len(s.Indices)}", "at := indicesKey{nil, len(s.Indices)}",
			[]string{"./internal/batch"},
		},
		{
			"gatherer-checks-no-range", "internal/batch/gather.go",
			"sel.rows > 0 && (sel.low < 0 || sel.high >= s.Values.Len())", "sel.rows > 0 && sel.low < 0",
			[]string{"./internal/batch"},
		},
	}
}
