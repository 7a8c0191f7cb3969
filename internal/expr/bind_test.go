package expr

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// everyType has columns of all types that filters support, and of some that they do
// not.
func everyType() *arrow.Schema {
	field := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true}
	}
	return arrow.NewSchema([]arrow.Field{
		field("i", arrow.PrimitiveTypes.Int32),
		field("j", arrow.PrimitiveTypes.Int32),
		field("l", arrow.PrimitiveTypes.Int64),
		field("f", arrow.PrimitiveTypes.Float32),
		field("g", arrow.PrimitiveTypes.Float64),
		field("n", &arrow.Decimal128Type{Precision: 10, Scale: 2}),
		field("m", &arrow.Decimal128Type{Precision: 38, Scale: 2}),
		field("b", arrow.FixedWidthTypes.Boolean),
		field("c", arrow.FixedWidthTypes.Boolean),
		field("s", arrow.BinaryTypes.String),
		field("u", arrow.BinaryTypes.LargeString),
		field("x", arrow.BinaryTypes.Binary),
		field("y", &arrow.FixedSizeBinaryType{ByteWidth: 2}),
		field("z", arrow.BinaryTypes.LargeBinary),
		field("w", &arrow.FixedSizeBinaryType{ByteWidth: 16}),
		field("d", arrow.FixedWidthTypes.Date32),
		field("t", arrow.FixedWidthTypes.Time64us),
		field("p", &arrow.TimestampType{Unit: arrow.Microsecond}),
		field("q", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}),
		field("r", &arrow.TimestampType{Unit: arrow.Nanosecond}),
		field("v", &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}),
		field("list", arrow.ListOf(arrow.PrimitiveTypes.Int64)),
		field("twice", arrow.PrimitiveTypes.Int64),
		field("twice", arrow.PrimitiveTypes.Int64),
		field("tiny", arrow.PrimitiveTypes.Int8),
		field("coded", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}),
	}, nil)
}

func TestBindCanonicalText(t *testing.T) {
	for text, want := range map[string]string{
		// Sides, NOT, BETWEEN, lists, order, repetition.
		"5 < i":                           "i > 5",
		"5 >= i":                          "i <= 5",
		"i BETWEEN 1 AND 5":               "i <= 5 AND i >= 1",
		"i NOT BETWEEN 1 AND 5":           "i < 1 OR i > 5",
		"NOT (i = 1 AND NOT b)":           "b OR i <> 1",
		"NOT (i < 1 OR s IS NULL)":        "s IS NOT NULL AND i >= 1",
		"i IN (3, 1, 2, 1)":               "i IN (1, 2, 3)",
		"i IN (1, 1.0)":                   "i = 1",
		"NOT i NOT IN (2, 1)":             "i IN (1, 2)",
		"i NOT IN (1)":                    "i <> 1",
		"s = 'b' AND i = 1 AND s = 'b'":   "i = 1 AND s = 'b'",
		"s = 'b' OR (i = 1 AND b)":        "b AND i = 1 OR s = 'b'",
		"(s = 'b' OR i = 1) AND b":        "b AND (i = 1 OR s = 'b')",
		"(i = 1 AND b) AND (j = 1 AND c)": "b AND c AND i = 1 AND j = 1",
		"j > i":                           "i < j",
		"TRUE AND i = 1":                  "i = 1",
		"FALSE AND i = 1":                 "FALSE",
		"TRUE OR i = 1":                   "TRUE",
		"NOT TRUE":                        "FALSE",
		"FALSE OR b":                      "b",
		// Exact numbers.
		"i < 1.5":                     "i <= 1",
		"i <= 1.5":                    "i <= 1",
		"i > 1.5":                     "i > 1",
		"i >= -1.5":                   "i > -2",
		"i = 1.5":                     "FALSE",
		"i <> 1.5":                    "i IS NOT NULL",
		"NOT i = 1.5":                 "i IS NOT NULL",
		"i IN (1.5, 2)":               "i = 2",
		"i IN (1.5)":                  "FALSE",
		"i NOT IN (1.5, 99999999999)": "i IS NOT NULL",
		"i < 2147483648":              "i IS NOT NULL",
		"i > 2147483648":              "FALSE",
		"i = 2147483648":              "FALSE",
		"i >= -2147483649":            "i IS NOT NULL",
		"i < -2147483649":             "FALSE",
		"i > -2147483648.5":           "i IS NOT NULL",
		"i < 2147483647.5":            "i <= 2147483647",
		"l < 2147483648":              "l < 2147483648",
		"l < 9223372036854775808":     "l IS NOT NULL",
		"l = 9223372036854775807":     "l = 9223372036854775807",
		"n < 1.005":                   "n <= 1",
		"n = 1.50":                    "n = 1.5",
		"n > -1.005":                  "n > -1.01",
		"m < 1e40":                    "m IS NOT NULL",
		// Floats.
		"f = 0.1":                 "f = 0.1",
		"f = 0.10000000149011612": "f = 0.1",
		"g = 0.10000000149011612": "g = 0.10000000149011612",
		"f < 1e39":                "f < 1E+400",
		"f <= 1e39":               "f < 1E+400",
		"f > 1e39":                "f > 1E+400",
		"f >= -1e39":              "f > -1E+400",
		"f <= -1e39":              "f < -1E+400",
		"f = 1e39":                "FALSE",
		"f <> 1e39":               "f IS NOT NULL",
		"f IN (1e39, 1)":          "f = 1",
		"g < 1e39":                "g < 1000000000000000000000000000000000000000",
		"g = -1e-999":             "g = 0",
		// Booleans.
		"b = TRUE":               "b",
		"b = FALSE":              "NOT b",
		"b <> TRUE":              "NOT b",
		"b < TRUE":               "NOT b",
		"b <= TRUE":              "b IS NOT NULL",
		"b > TRUE":               "FALSE",
		"b IN (TRUE)":            "b",
		"b IN (TRUE, FALSE)":     "b IS NOT NULL",
		"b NOT IN (TRUE, FALSE)": "FALSE",
		"NOT b IS NULL":          "b IS NOT NULL",
		// Text and binary.
		"u >= 'it''s'":           "u >= 'it''s'",
		"x IN (X'02', X'01')":    "x IN (X'01', X'02')",
		"y = X'0011'":            "y = X'0011'",
		"s LIKE 'x%'":            "s LIKE 'x%'",
		"NOT u LIKE 'x%%'":       "u NOT LIKE 'x%'",
		"NOT s NOT LIKE 'x%'":    "s LIKE 'x%'",
		"s LIKE '%'":             "s IS NOT NULL",
		"s NOT LIKE '%'":         "FALSE",
		"s LIKE 'x'":             "s = 'x'",
		`s NOT LIKE '\_'`:        "s <> '_'",
		"s LIKE ''":              "s = ''",
		"s LIKE '%x'":            "s LIKE '%x'",
		"NOT s LIKE 'x%_y'":      "s NOT LIKE 'x_%y'",
		`s LIKE 'a\%\_\\it''s%'`: `s LIKE 'a\%\_\\it''s%'`,
		"w IN ('F79C3E09-677c-4bbd-a479-3f349cb785e7', X'00')": "w IN (X'00', X'f79c3e09677c4bbda4793f349cb785e7')",
		"w = x AND y < w": "w = x AND w > y",
		// Dates and times.
		"d >= '2026-10-01'":                           "d >= DATE '2026-10-01'",
		"d = DATE '1969-12-31'":                       "d = DATE '1969-12-31'",
		"t < '12:30'":                                 "t < TIME '12:30:00'",
		"t < TIME '12:30:00.0000005'":                 "t <= TIME '12:30:00'",
		"p > DATE '2026-10-01'":                       "p > TIMESTAMP '2026-10-01 00:00:00'",
		"p > '2026-10-01T12:00'":                      "p > TIMESTAMP '2026-10-01 12:00:00'",
		"p > TIMESTAMP '1969-12-31 23:59:59.9999995'": "p > TIMESTAMP '1969-12-31 23:59:59.999999'",
		"q > TIMESTAMP '2026-10-01 12:00'":            "q > TIMESTAMP '2026-10-01 12:00:00+00:00'",
		"q > '2026-10-01 12:00+02:00'":                "q > TIMESTAMP '2026-10-01 10:00:00+00:00'",
		"r < '2026-10-01 12:00:00.123456789'":         "r < TIMESTAMP '2026-10-01 12:00:00.123456789'",
		"r < '2500-01-01'":                            "r IS NOT NULL",
		"r < '1500-01-01'":                            "FALSE",
		"v = DATE '2026-10-01'":                       "v = TIMESTAMP '2026-10-01 00:00:00+00:00'",
		// Types without an order.
		"list IS NULL OR tiny IS NOT NULL": "list IS NULL OR tiny IS NOT NULL",
		// Columns.
		"p BETWEEN r AND '2026-10-01'": "",
		"i = l AND f < g AND s = u":    "f < g AND i = l AND s = u",
		"x = y":                        "x = y",
		"n >= m":                       "m <= n",
	} {
		t.Run(text, func(t *testing.T) {
			e, err := Parse(text)
			require.NoError(t, err)
			f, err := e.Bind(everyType())
			if want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, f.String())
			again, err := Parse(f.String())
			require.NoError(t, err)
			g, err := again.Bind(everyType())
			require.NoError(t, err)
			require.Equal(t, want, g.String(), "binding the canonical text again")
		})
	}
}

// spec: filter-7, filter-8, filter-9
func TestBindReportsAllFaults(t *testing.T) {
	for text, want := range map[string][]fault.Field{
		"I = 1": {{Position: 1, Message: `unknown column "I"`, Nearest: "i"}},
		"lst IS NULL AND lst IS NULL AND tinny IS NULL": {
			{Position: 1, Message: `unknown column "lst"`, Nearest: "list"},
			{Position: 33, Message: `unknown column "tinny"`, Nearest: "tiny"},
		},
		`s = "home page"`: {{Position: 5, Message: `unknown column "home page"; a string is written in single quotes`}},
		"twice = 1":       {{Position: 1, Message: `2 columns are named "twice"`}},
		"i.x = 1":         {{Position: 1, Message: "i.x is a field of a struct: filters on struct fields are not supported yet"}},
		"i LIKE 'x%' OR NOT x LIKE 'x%'": {
			{Position: 1, Message: `column "i" (int32) is not a string: LIKE supports only strings`},
			{Position: 20, Message: `column "x" (binary) is not a string: LIKE supports only strings`},
		},
		"i = 'x' OR s IN (1, 'a', TRUE)": {
			{Position: 5, Message: `column "i" (int32) cannot be compared with a string: write a number without quotes`},
			{Position: 18, Message: `column "s" (utf8) cannot be compared with a number: write a string in single quotes`},
			{Position: 26, Message: `column "s" (utf8) cannot be compared with TRUE or FALSE: write a string in single quotes`},
		},
		"b = 1": {{Position: 5, Message: `column "b" (bool) cannot be compared with a number: write TRUE or FALSE`}},
		"w = 'a'": {{
			Position: 5, Message: `column "w" (fixed_size_binary[16]) cannot be compared with the literal: 'a' is not a UUID such as '9e3a…-…'`,
		}},
		"w = 1":    {{Position: 5, Message: `column "w" (fixed_size_binary[16]) cannot be compared with a number: write X'…', or a UUID in single quotes`}},
		"x = 'a'":  {{Position: 5, Message: `column "x" (binary) cannot be compared with a string: write X'…'`}},
		"i":        {{Position: 1, Message: `column "i" (int32) is not a condition by itself: compare it with a number without quotes`}},
		"list = 1": {{Position: 8, Message: `column "list" (list<item: int64, nullable>) cannot be compared with a number: write only IS NULL or IS NOT NULL`}},
		"d = TIMESTAMP '2026-10-01 00:00:00'": {{
			Position: 5, Message: `column "d" (date32) cannot be compared with a TIMESTAMP: write DATE '2026-10-01'`,
		}},
		"p = TIMESTAMP '2026-10-01 00:00:00Z'": {{
			Position: 5, Message: `column "p" (timestamp[us]) has no time zone, but the literal has an offset: leave the offset out`,
		}},
		"d = 'today'": {{
			Position: 5, Message: `column "d" (date32) cannot be compared with the literal: 'today' is not a date such as '2026-10-01': the form is YYYY-MM-DD`,
		}},
		"i = s": {{Position: 1, Message: `columns "i" (int32) and "s" (utf8) cannot be compared: compare columns of one type, or each with a literal`}},
		"coded IS NULL OR coded": {
			{Position: 1, Message: `column "coded" (dictionary<values=utf8, indices=int32, ordered=false>) has a type that filters do not support`},
			{Position: 18, Message: `column "coded" (dictionary<values=utf8, indices=int32, ordered=false>) has a type that filters do not support`},
		},
		"p < q":             {{Position: 1, Message: `columns "p" (timestamp[us]) and "q" (timestamp[us, tz=UTC]) cannot be compared: one has a time zone and the other has none; compare each with a TIMESTAMP literal`}},
		"5 BETWEEN 1 AND i": {{Position: 1, Message: "two literals are compared: compare columns with literals"}},
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		_, err = e.Bind(everyType())
		require.Error(t, err, text)
		_, same := e.BindConjuncts(everyType())
		require.Equal(t, err, same, text)
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.Equal(t, want, fault.As(err).Faults, text)
	}
}

func TestAll(t *testing.T) {
	either, both := bind(t, "b OR c", everyType()), bind(t, "i = 1 AND b", everyType())
	require.Equal(t, "b AND i = 1 AND (b OR c)", All(either, nil, both).String())
	require.Equal(t, All(both, either).String(), All(either, both).String())
	require.Equal(t, both.String(), All(both).String())
	require.Equal(t, "FALSE", All(bind(t, "FALSE", everyType()), both).String())
	require.Equal(t, []string{"b", "i", "c"}, All(either, both).Columns())
	require.Nil(t, All())
	require.Nil(t, All(nil, nil))

	var none *Expr
	parts, err := none.BindConjuncts(everyType())
	require.NoError(t, err)
	require.Empty(t, parts)
}

func TestFilterColumns(t *testing.T) {
	bound := func(text string) *Filter {
		e, err := Parse(text)
		require.NoError(t, err)
		f, err := e.Bind(everyType())
		require.NoError(t, err)
		return f
	}
	require.Equal(t, []string{"i", "s"}, bound("s = 'a' AND i = 1 AND s <> 'b'").Columns())
	require.Equal(t, []string{"i"}, bound("i = 1 OR (s = 'a' AND FALSE)").Columns())
	require.Empty(t, bound("TRUE").Columns())

	var none *Expr
	f, err := none.Bind(everyType())
	require.NoError(t, err)
	require.Equal(t, "TRUE", f.String())
	var absent *Filter
	require.Equal(t, "TRUE", absent.String())
	require.Empty(t, absent.Columns())
}
