package function

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// trial is a function with arguments of given types, and its text in SQL. Columns of rows that vary are
// named a, b, c …, by the position of the argument.
type trial struct {
	name string
	args []generator
	// duckdb and spark are expressions; "": the call itself.
	duckdb, spark string
	// fails allows that the function has no result for some rows. They are left out.
	fails bool
	// ulps is the number of floats by which the engines' results may differ.
	ulps int64
	// anySign allows that engines differ in the sign of zero.
	anySign bool
}

// cases returns the trials of all functions.
func cases() []trial {
	return slices.Concat(conditionalCases(), mathCases(), dateCases(), codeCases(), textCases(), listCases())
}

func conditionalCases() []trial {
	return []trial{
		{name: "coalesce", args: []generator{ints32()}},
		{name: "coalesce", args: []generator{ints32(), ints64(), ints32()}},
		{name: "coalesce", args: []generator{ints64(), floats64()}},
		{name: "coalesce", args: []generator{floats32(), literal(ints32().dt, int32(7), "7")}, duckdb: "coalesce(CAST(a AS DOUBLE), 7)"},
		{name: "coalesce", args: []generator{floats32(), floats32()}},
		{name: "coalesce", args: []generator{strs(), textLiteral("none")}},
		{name: "coalesce", args: []generator{bools(), bools()}},
		{name: "coalesce", args: []generator{binaries(), binaries()}},
		{name: "coalesce", args: []generator{decimals(), decimals()}},
		{name: "coalesce", args: []generator{dates(), dates(), dates()}},
		{name: "coalesce", args: []generator{timestamps(micros), timestamps(micros)}},
		{name: "coalesce", args: []generator{listsOfRandom(ints32()), listsOfRandom(ints32())}},
		{name: "coalesce", args: []generator{listsOfRandom(strs()), listsOfRandom(strs())}},
		{name: "nullif", args: []generator{ints32(), ints32()}},
		{name: "nullif", args: []generator{ints32(), ints64()}},
		{name: "nullif", args: []generator{ints64(), literal(ints32().dt, int32(0), "0")}},
		{name: "nullif", args: []generator{ints64(), floats64()}},
		{name: "nullif", args: []generator{floats64(), floats64()}},
		{name: "nullif", args: []generator{floats32(), floats32()}},
		{name: "nullif", args: []generator{strs(), strs()}},
		{name: "nullif", args: []generator{strs(), textLiteral("")}},
		{name: "nullif", args: []generator{textLiteral("a"), strs()}},
		{name: "nullif", args: []generator{bools(), bools()}},
		{name: "nullif", args: []generator{dates(), dates()}},
		{name: "nullif", args: []generator{decimals(), decimals()}},
		{name: "greatest", args: []generator{ints32(), ints64()}},
		{name: "greatest", args: []generator{ints64(), floats64(), ints32()}, anySign: true},
		{name: "greatest", args: []generator{floats32(), floats32()}, anySign: true},
		{name: "greatest", args: []generator{strs(), strs(), strs()}},
		{name: "greatest", args: []generator{dates(), dates()}},
		{name: "greatest", args: []generator{decimals(), decimals()}},
		{name: "least", args: []generator{ints32(), literal(ints32().dt, int32(3), "3")}},
		{name: "least", args: []generator{floats64(), floats64(), floats64()}, anySign: true},
		{name: "least", args: []generator{bools(), bools()}},
		{name: "least", args: []generator{timestamps(micros), timestamps(micros)}},
		{name: "least", args: []generator{strs(), textLiteral("b")}},
	}
}

func mathCases() []trial {
	return []trial{
		{name: "isnan", args: []generator{floats32()}, spark: "if(a IS NULL, NULL, isnan(a))"},
		{name: "isnan", args: []generator{floats64()}, spark: "if(a IS NULL, NULL, isnan(a))"},
		{name: "abs", args: []generator{ints32()}, fails: true},
		{name: "abs", args: []generator{ints64()}, fails: true},
		{name: "abs", args: []generator{floats32()}},
		{name: "abs", args: []generator{floats64()}},
		{name: "floor", args: []generator{ints32()}},
		{name: "floor", args: []generator{ints64()}, duckdb: "a"},
		{name: "floor", args: []generator{floats32()}, fails: true, anySign: true},
		{name: "floor", args: []generator{floats64()}, fails: true, anySign: true},
		{name: "ceil", args: []generator{ints32()}},
		{name: "ceil", args: []generator{ints64()}, duckdb: "a"},
		{name: "ceil", args: []generator{floats32()}, fails: true, anySign: true},
		{name: "ceil", args: []generator{floats64()}, fails: true, anySign: true},
		{name: "round", args: []generator{ints64()}},
		{name: "round", args: []generator{floats32()}, anySign: true},
		{name: "round", args: []generator{floats64()}, anySign: true},
		{name: "sign", args: []generator{ints32()}},
		{name: "sign", args: []generator{floats64()}, fails: true, anySign: true},
		{name: "sqrt", args: []generator{ints64()}},
		{name: "sqrt", args: []generator{floats32()}},
		{name: "sqrt", args: []generator{floats64()}},
		{name: "exp", args: []generator{floats64()}, ulps: 1},
		{name: "ln", args: []generator{ints32()}, fails: true, ulps: 1},
		{name: "ln", args: []generator{floats64()}, fails: true, ulps: 1},
		{name: "log2", args: []generator{floats64()}, fails: true, ulps: 2},
		{name: "log10", args: []generator{floats64()}, fails: true, ulps: 1},
		{name: "sin", args: []generator{floats64()}, fails: true, ulps: 1},
		{name: "cos", args: []generator{floats64()}, fails: true, ulps: 1},
		{name: "power", args: []generator{floats64(), floats64()}, fails: true, ulps: 1},
		{name: "power", args: []generator{floats32(), ints32()}, fails: true, ulps: 1},
		{name: "power", args: []generator{floats64(), literal(ints32().dt, int32(2), "2")}, fails: true, ulps: 1},
	}
}

func dateCases() []trial {
	var out []trial
	for _, name := range []string{"year", "quarter", "month", "day", "dayofyear", "weekofyear", "isodow"} {
		spark := ""
		if name == "isodow" {
			spark = "extract(DAYOFWEEK_ISO FROM a)"
		}
		out = append(out, trial{name: name, args: []generator{dates()}, spark: spark},
			trial{name: name, args: []generator{timestamps(micros)}, spark: spark})
	}
	for _, name := range []string{"hour", "minute", "second", "year"} {
		out = append(out, trial{name: name, args: []generator{timestamps(zoned)}}, trial{name: name, args: []generator{timestamps(micros)}},
			trial{name: name, args: []generator{timestamps(nanos)}, spark: without})
	}
	for _, unit := range []string{"year", "quarter", "month", "week", "day", "hour", "minute", "second"} {
		literal := textLiteral(strings.ToUpper(unit))
		out = append(out, trial{name: "date_trunc", args: []generator{literal, timestamps(micros)}},
			trial{name: "date_trunc", args: []generator{literal, timestamps(zoned)}},
			trial{name: "date_trunc", args: []generator{literal, timestamps(nanos)}, spark: without})
	}
	return append(out,
		trial{name: "datediff", args: []generator{textLiteral("day"), dates(), dates()}, spark: "datediff(c, b)"},
		trial{name: "unix_seconds", args: []generator{timestamps(micros)}, duckdb: "epoch_us(date_trunc('second', a)) // 1000000"},
		trial{name: "unix_seconds", args: []generator{timestamps(zoned)}, duckdb: "epoch_us(date_trunc('second', a)) // 1000000"},
		trial{name: "unix_millis", args: []generator{timestamps(zoned)}, duckdb: "epoch_us(date_trunc('millisecond', a)) // 1000"},
		trial{name: "unix_micros", args: []generator{timestamps(nanos)}, duckdb: "epoch_us(a)", spark: without},
		trial{name: "unix_micros", args: []generator{timestamps(zoned)}, duckdb: "epoch_us(a)"},
		trial{name: "timestamp_seconds", args: []generator{ints32()}, duckdb: "to_timestamp(a)"},
		trial{name: "timestamp_millis", args: []generator{ints64()}, fails: true, duckdb: "make_timestamp_ms(a)"},
		trial{name: "timestamp_micros", args: []generator{ints64()}, fails: true, duckdb: "make_timestamp(a)"},
	)
}

func numberList(texts string, dt arrow.DataType, items ...any) generator {
	return literal(arrow.ListOf(dt), items, "["+texts+"]")
}

// bucketized returns a trial of bucketize. list is SQL.
func bucketized(of, bounds generator) trial {
	items := strings.Trim(bounds.literal, "[]")
	return trial{
		name: "bucketize", args: []generator{of, bounds},
		duckdb: "CASE WHEN a IS NULL THEN NULL ELSE len(list_filter([" + items + "], lambda x: a > x)) END",
		spark:  "CASE WHEN a IS NULL THEN NULL ELSE size(filter(array(" + items + "), x -> a > x)) END",
	}
}

func lookedUp(of, values generator, other string, code any) trial {
	items := strings.Trim(values.literal, "[]")
	t := trial{
		name: "lookup", args: []generator{of, values, literal(arrow.PrimitiveTypes.Int64, code, other)},
		duckdb: "CASE WHEN a IS NULL THEN NULL ELSE coalesce(list_position([" + items + "], a) - 1, " + other + ") END",
		spark:  "CASE WHEN a IS NULL THEN NULL ELSE coalesce(nullif(array_position(array(" + items + "), a), 0) - 1, " + other + ") END",
	}
	if other == "" {
		t.args, t.fails = t.args[:2], true
		t.duckdb = "list_position([" + items + "], a) - 1"
		t.spark = "array_position(array(" + items + "), a) - 1"
	}
	return t
}

func codeCases() []trial {
	wholes := numberList("-5, 0, 1, 7", arrow.PrimitiveTypes.Int32, int32(-5), int32(0), int32(1), int32(7))
	longs := numberList("-5, 0, 3000000000", arrow.PrimitiveTypes.Int64, int64(-5), int64(0), int64(3_000_000_000))
	fractions := numberList("-0.5e0, 0e0, 2.5e0, 1e300", arrow.PrimitiveTypes.Float64, -0.5, 0.0, 2.5, 1e300)
	words := numberList("'a', 'b', '', 'é', 'ab'", arrow.BinaryTypes.String, "a", "b", "", "é", "ab")
	n := literal(arrow.PrimitiveTypes.Int64, int64(1000), "1000")
	return []trial{
		{name: "hash", args: []generator{ints32(), n}, duckdb: without, spark: without},
		{name: "hash", args: []generator{ints64(), n}, duckdb: without, spark: without},
		{name: "hash", args: []generator{strs(), n}, duckdb: without, spark: without},
		{name: "hash", args: []generator{binaries(), n}, duckdb: without, spark: without},
		bucketized(ints32(), wholes), bucketized(ints64(), wholes), bucketized(ints64(), longs), bucketized(ints32(), longs),
		bucketized(floats64(), wholes), bucketized(floats64(), fractions), bucketized(floats32(), wholes), bucketized(ints32(), fractions),
		bucketized(dates(), numberList("DATE '1969-12-31', DATE '2020-02-29'", arrow.FixedWidthTypes.Date32, arrow.Date32(-1), arrow.Date32(18321))),
		lookedUp(ints32(), wholes, "", nil), lookedUp(ints32(), wholes, "4", int64(4)), lookedUp(ints64(), wholes, "NULL", nil), lookedUp(ints64(), longs, "-1", int64(-1)),
		lookedUp(strs(), words, "99", int64(99)), lookedUp(strs(), words, "NULL", nil), lookedUp(strs(), words, "", nil),
	}
}

func small(dt arrow.DataType) generator {
	return generator{dt: dt, value: oftenNull(func(r *rand.Rand) any {
		n := r.IntN(14) - 6
		if dt.ID() == arrow.INT32 {
			return int32(n)
		}
		return int64(n)
	})}
}

func textCases() []trial {
	int32s, int64s := small(arrow.PrimitiveTypes.Int32), small(arrow.PrimitiveTypes.Int64)
	three := literal(arrow.PrimitiveTypes.Int32, int32(3), "3")
	var out []trial
	for _, name := range []string{"length", "lower", "upper", "trim", "ltrim", "rtrim"} {
		out = append(out, trial{name: name, args: []generator{strs()}})
	}
	for name, spark := range map[string]string{"starts_with": "startswith", "ends_with": "endswith", "contains": "contains"} {
		out = append(out, trial{name: name, args: []generator{strs(), strs()}, spark: spark + "(a, b)"},
			trial{name: name, args: []generator{strs(), textLiteral("a")}, spark: spark + "(a, 'a')"},
			trial{name: name, args: []generator{strs(), textLiteral("")}, spark: spark + "(a, '')"})
	}
	for _, name := range []string{"left", "right"} {
		out = append(out, trial{name: name, args: []generator{strs(), int32s}, fails: true}, trial{name: name, args: []generator{strs(), three}})
	}
	return append(out,
		trial{name: "lower", args: []generator{letters()}, fails: true},
		trial{name: "upper", args: []generator{letters()}, fails: true},
		trial{name: "trim", args: []generator{letters()}, fails: true},
		trial{name: "substring", args: []generator{strs(), int32s}, fails: true},
		trial{name: "substring", args: []generator{strs(), int64s, int64s}, fails: true, spark: "substring(a, CAST(b AS INT), CAST(c AS INT))"},
		trial{name: "substring", args: []generator{strs(), literal(ints32().dt, int32(2), "2"), three}},
		trial{name: "replace", args: []generator{strs(), textLiteral("a"), textLiteral("")}},
		trial{name: "replace", args: []generator{strs(), textLiteral("aa"), textLiteral("é_é")}},
		trial{name: "replace", args: []generator{strs(), textLiteral(""), textLiteral("b")}},
		trial{name: "split_part", args: []generator{strs(), textLiteral(","), int32s}, fails: true},
		trial{name: "split_part", args: []generator{strs(), strs(), int64s}, fails: true, duckdb: "split_part(a, b, CAST(c AS INT))", spark: "split_part(a, b, CAST(c AS INT))"},
		trial{name: "split_part", args: []generator{strs(), textLiteral("aa"), int32s}, fails: true},
		trial{name: "concat_ws", args: []generator{textLiteral("-"), strs(), strs()}},
		trial{name: "concat_ws", args: []generator{strs(), strs(), textLiteral("x"), strs()}},
	)
}

// someLists makes lists whose items are often not null.
func someLists(of generator) generator {
	value := of.value
	of.value = func(r *rand.Rand) any {
		v := value(r)
		for range 3 {
			if v == nil {
				v = value(r)
			}
		}
		return v
	}
	return listsOfRandom(of)
}

func listCases() []trial {
	int32s, int64s := small(arrow.PrimitiveTypes.Int32), small(arrow.PrimitiveTypes.Int64)
	two := literal(arrow.PrimitiveTypes.Int32, int32(2), "2")
	var out []trial
	for _, items := range []generator{ints32(), strs(), floats64(), dates(), bools(), decimals()} {
		of := listsOfRandom(items)
		out = append(out,
			trial{name: "length", args: []generator{of}, spark: "array_size(a)"},
			trial{name: "first", args: []generator{of, two}, duckdb: "a[1:2]", spark: "slice(a, 1, 2)"},
			trial{name: "last", args: []generator{of, two}, duckdb: "a[-2:]", spark: "slice(a, greatest(array_size(a) - 1, 1), 2)"},
			trial{name: "element_at", args: []generator{of, int32s}, fails: true, duckdb: "a[b]"},
			trial{name: "element_at", args: []generator{of, literal(ints64().dt, int64(-1), "-1")}, fails: true, duckdb: "a[-1]"},
			trial{name: "try_element_at", args: []generator{of, int64s}, fails: true, duckdb: "a[b]", spark: "try_element_at(a, CAST(b AS INT))"},
			trial{name: "array_min", args: []generator{of}, duckdb: "list_min(a)", anySign: true},
			trial{name: "array_max", args: []generator{of}, duckdb: "list_max(a)", anySign: true},
			trial{name: "array_contains", args: []generator{someLists(items), items}, fails: true},
		)
	}
	for _, items := range []generator{int32s, int64s, floats32(), floats64()} {
		zero, whole := "0L", "BIGINT"
		if isFloat(items.dt) {
			zero, whole = "0D", "DOUBLE"
		}
		sum := "aggregate(a, " + zero + ", (s, e) -> s + coalesce(CAST(e AS " + whole + "), " + zero + "))"
		count := "nullif(size(filter(a, e -> e IS NOT NULL)), 0)"
		out = append(out,
			trial{name: "array_sum", args: []generator{listsOfRandom(items)}, duckdb: "list_sum(a)", spark: "if(" + count + " IS NULL, NULL, " + sum + ")", anySign: true},
			trial{name: "array_avg", args: []generator{listsOfRandom(items)}, duckdb: "list_avg(a)", spark: sum + " / " + count, anySign: true},
		)
	}
	return append(out,
		trial{name: "array_sum", args: []generator{listsOfRandom(ints64())}, fails: true, duckdb: "list_sum(a)", spark: without},
		trial{name: "array_contains", args: []generator{someLists(ints32()), ints64()}, fails: true},
		trial{name: "array_contains", args: []generator{someLists(strs()), textLiteral("a")}, fails: true},
		trial{name: "array_contains", args: []generator{numberList("1, 2, 3", ints64().dt, int64(1), int64(2), int64(3)), ints64()}, spark: "array_contains(array(1L, 2L, 3L), b)"},
	)
}
