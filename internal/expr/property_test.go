package expr

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// comparable returns the columns of everyType that compare with literals, grouped by
// those that compare with each other.
func familiesOfColumns() [][]string {
	return [][]string{{"i", "j", "l"}, {"f", "g"}, {"n", "m"}, {"b", "c"}, {"s", "u"}, {"x", "y", "z", "w"}, {"d"}, {"t"}, {"p"}, {"q"}, {"r"}, {"v"}}
}

// randomExpr returns a random filter over everyType. It has few different values, so
// that comparisons are often TRUE.
type randomExpr struct {
	*rand.Rand
}

func (r randomExpr) pick(choices ...string) string { return choices[r.IntN(len(choices))] }

func (r randomExpr) condition(depth int) string {
	if depth > 0 && r.IntN(3) > 0 {
		terms := make([]string, 1+r.IntN(3))
		for i := range terms {
			terms[i] = r.condition(depth - 1)
		}
		return r.pick("", "", "NOT ") + "(" + strings.Join(terms, r.pick(" AND ", " OR ", ") OR (", ") AND (")) + ")"
	}
	families := familiesOfColumns()
	family := families[r.IntN(len(families))]
	column := r.pick(family...)
	operator := r.pick("=", "<>", "<", "<=", ">", ">=")
	switch r.IntN(10) {
	case 0:
		return column + r.pick(" IS NULL", " IS NOT NULL")
	case 1:
		items := make([]string, 1+r.IntN(10))
		for i := range items {
			items[i] = r.literal(column)
		}
		return column + r.pick(" IN (", " NOT IN (") + strings.Join(items, ", ") + ")"
	case 2:
		return column + r.pick(" BETWEEN ", " NOT BETWEEN ") + r.operand(family, column) + " AND " + r.operand(family, column)
	case 3:
		return column + " " + operator + " " + r.pick(family...)
	case 4:
		return r.literal(column) + " " + operator + " " + column
	case 5:
		return r.pick("s", "u") + r.pick(" LIKE ", " NOT LIKE ") + r.pick("'%'", "'a%'", "'ab%'", "'abc%'", "'b%'", "'é%'", `'\%%'`, `'a\_%'`, "'\U0010ffff%'",
			"''", "'a'", "'_'", "'%b'", "'%é%'", "'_b%'", "'a_'", "'%_a%'", "'a%b'", "'__'", "'%a_c%'", "'%%_'", `'%\%'`, "'_é_'")
	case 6:
		return r.pick("b", "NOT c", "list IS NULL", "list IS NOT NULL", "TRUE", "FALSE")
	default:
		return column + " " + operator + " " + r.literal(column)
	}
}

func (r randomExpr) operand(family []string, column string) string {
	if r.IntN(4) == 0 {
		return r.pick(family...)
	}
	return r.literal(column)
}

func (r randomExpr) literal(column string) string {
	switch column {
	case "i", "j":
		return r.pick("-2", "-1", "0", "1", "2", "0.5", "-1.5", "2147483647", "2147483648", "-2147483649", "1e20", "2147483646.5")
	case "l":
		return r.pick("-2", "0", "1", "2", "0.5", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e20")
	case "f", "g":
		return r.pick("-1", "0", "1", "0.1", "0.30000001", "1e39", "-1e39", "1e400", "-1e400", "1e-50", "2.5")
	case "n", "m":
		return r.pick("-1.01", "-1", "0", "0.005", "1.5", "1.50", "1e30", "-1e50", "2")
	case "b", "c":
		return r.pick("TRUE", "FALSE")
	case "s", "u":
		return r.pick("''", "'a'", "'ab'", "'abc'", "'b'", "'é'", "'\U0010ffff'")
	case "w":
		return r.pick("X''", "X'00'", "X'00000000000000000000000000000001'", "'00000000-0000-0000-0000-000000000001'", "'ffFFffff-ffff-ffff-ffff-ffffffffffff'")
	case "x", "y", "z":
		return r.pick("X''", "X'00'", "X'0001'", "X'ff'", "X'ffff'", "X'ffffff'")
	case "d":
		return r.pick("DATE '1969-12-31'", "'1970-01-01'", "DATE '1970-01-02'", "DATE '9999-12-31'", "'0001-01-01'")
	case "t":
		return r.pick("TIME '00:00'", "'00:00:01'", "'00:00:00.000001'", "TIME '00:00:00.0000005'", "TIME '23:59:59.999999999'")
	case "p", "r":
		return r.pick("DATE '1970-01-01'", "TIMESTAMP '1969-12-31 23:59:59.999999'", "'1970-01-01 00:00:00.000001'",
			"TIMESTAMP '1970-01-01 00:00:00.000000001'", "'1969-12-31 23:59:59.999999999'", "'9999-12-31'", "'0001-01-01'")
	default:
		return r.pick("DATE '1970-01-01'", "TIMESTAMP '1969-12-31 23:59:59.999999Z'", "'1970-01-01 02:00:00.000001+02:00'",
			"TIMESTAMP '1970-01-01 00:00:00.000000001'", "'9999-12-31'")
	}
}

// randomBatch returns a slice of rows of everyType with values near the literals above.
// Some columns are all null, without nulls, or constant.
func (r randomExpr) batch(mem memory.Allocator) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, everyType())
	defer b.Release()
	rows := r.IntN(200)
	for i := range b.Schema().NumFields() {
		nulls, spread := r.IntN(4), 1+r.IntN(5)
		base := r.IntN(5)
		for range rows {
			if nulls == 3 || nulls > 0 && r.IntN(4) == 0 {
				b.Field(i).AppendNull()
				continue
			}
			r.append(b.Field(i), (base+r.IntN(spread))%6)
		}
	}
	whole := b.NewRecordBatch()
	defer whole.Release()
	from := r.IntN(rows + 1)
	return whole.NewSlice(int64(from), int64(from+r.IntN(rows-from+1)))
}

// append appends the value for a choice from 0 to 5.
func (r randomExpr) append(b array.Builder, choice int) {
	small := int64(choice) - 2
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append([]int32{math.MinInt32, -1, 0, 1, 2, math.MaxInt32}[choice])
	case *array.Int64Builder:
		b.Append([]int64{math.MinInt64, -1, 0, 1, 2, math.MaxInt64}[choice])
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString("a"); err != nil {
			panic(err)
		}
	case *array.Int8Builder:
		b.Append(int8(choice))
	case *array.Float32Builder:
		b.Append([]float32{float32(math.Inf(-1)), -1, float32(math.Copysign(0, -1)), 0.1, float32(math.Inf(1)), float32(math.NaN())}[choice])
	case *array.Float64Builder:
		b.Append([]float64{math.Inf(-1), -1, 0, 0.1, math.MaxFloat64, math.NaN()}[choice])
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64([]int64{-101, -100, 0, 1, 150, 200}[choice]))
	case *array.BooleanBuilder:
		b.Append(choice > 2)
	case *array.StringBuilder:
		b.Append([]string{"", "a", "ab", "abc", "é", "\U0010ffff\U0010ffff"}[choice])
	case *array.LargeStringBuilder:
		b.Append([]string{"", "a", "ab", "abd", "b", "é"}[choice])
	case *array.FixedSizeBinaryBuilder:
		v := bytes.Repeat([]byte{[]byte{0, 0, 1, 0xff, 0xff, 7}[choice]}, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		v[len(v)-1] = byte(choice)
		b.Append(v)
	case *array.BinaryBuilder:
		b.Append([][]byte{{}, {0}, {0, 1}, {0xff}, {0xff, 0xff, 0xff}, {3}}[choice])
	case *array.Date32Builder:
		b.Append(arrow.Date32(small))
	case *array.Time64Builder:
		b.Append([]arrow.Time64{0, 1, 2, 1_000_000, 1_000_001, 86_399_999_999}[choice])
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(small))
	case *array.ListBuilder:
		b.Append(true)
		b.ValueBuilder().(*array.Int64Builder).Append(small)
	default:
		panic(fmt.Sprintf("%T", b))
	}
}

// rangesOf returns the ranges that a file's metadata could have for a batch: with
// bounds missing, loosened or truncated at random, and counts unknown at random.
func (r randomExpr) rangesOf(batch arrow.RecordBatch) map[string]Range {
	ranges := map[string]Range{}
	for i, field := range batch.Schema().Fields() {
		if r.IntN(8) == 0 || field.Name == "twice" || field.Name == "coded" {
			continue
		}
		ranges[field.Name] = r.rangeOf(batch.Column(i))
	}
	return ranges
}

func (r randomExpr) rangeOf(a arrow.Array) Range {
	out := Range{Nulls: 0, Rows: int64(a.Len()), NoNaN: true}
	for row := range a.Len() {
		v := boundOf(cellOf(a, row), a.DataType())
		if a.IsNull(row) {
			out.Nulls++
		} else if v.kind == noValue {
			out.NoNaN = false // or a type without bounds
		} else {
			if order, ok := v.compare(out.Lower); !ok || order < 0 {
				out.Lower, out.HasLower = v, true
			}
			if order, ok := v.compare(out.Upper); !ok || order > 0 {
				out.Upper, out.HasUpper = v, true
			}
		}
	}
	if r.IntN(2) == 0 {
		out.NoNaN = false
	}
	if r.IntN(4) == 0 {
		out.Nulls = Unknown
	}
	if r.IntN(4) == 0 {
		out.Rows = Unknown
	}
	if a.DataType().ID() == arrow.TIMESTAMP && a.DataType().(*arrow.TimestampType).Unit == arrow.Nanosecond {
		r.toMicros(&out)
	}
	r.loosen(&out)
	return out
}

// toMicros rounds nanoseconds: outwards, as Range requires, or inwards, which MayMatch
// tolerates.
func (r randomExpr) toMicros(out *Range) {
	floor := func(v int64) int64 { return int64(math.Floor(float64(v) / 1000)) }
	if r.IntN(2) == 0 {
		out.Lower, out.Upper = Int(floor(out.Lower.integer)), Int(-floor(-out.Upper.integer))
	} else {
		out.Lower, out.Upper = Int(-floor(-out.Lower.integer)), Int(floor(out.Upper.integer))
	}
}

func (r randomExpr) loosen(out *Range) {
	switch r.IntN(6) {
	case 0:
		out.Lower, out.HasLower = Value{}, false
	case 1:
		out.Upper, out.HasUpper = Value{}, false
	case 2:
		if out.HasLower && out.Lower.kind == textValue && len(out.Lower.text) > 1 {
			out.Lower = Text(out.Lower.text[:1]) // truncated
		}
		if out.HasUpper && out.Upper.kind == textValue && len(out.Upper.text) > 1 && out.Upper.text[0] < utf8.RuneSelf {
			out.Upper = Text(string(out.Upper.text[0] + 1)) // truncated and incremented
		}
	case 3:
		if out.HasLower && out.Lower.kind == integerValue && out.Lower.integer > math.MinInt32 {
			out.Lower = Int(out.Lower.integer - 1)
		}
	}
}

// boundOf converts a value to a bound in the units of Range, except for nanoseconds.
func boundOf(c cell, dt arrow.DataType) Value {
	switch v := c.(type) {
	case *big.Rat:
		switch dt := dt.(type) {
		case *arrow.Decimal128Type:
			scaled := new(big.Rat).Mul(v, big.NewRat(1_000_000, 1))
			return Decimal(scaled.Num(), 6)
		case *arrow.Date32Type:
			return Int(new(big.Rat).Quo(v, big.NewRat(86_400_000_000_000, 1)).Num().Int64())
		case *arrow.Time64Type:
			return Int(new(big.Rat).Quo(v, big.NewRat(1000, 1)).Num().Int64())
		case *arrow.TimestampType:
			return Int(new(big.Rat).Quo(v, big.NewRat(int64(dt.Unit.Multiplier()), 1)).Num().Int64())
		default:
			return Int(v.Num().Int64())
		}
	case float64:
		return Float(v)
	case []byte:
		return Bytes(v)
	case bool:
		return Bool(v)
	default:
		return Value{}
	}
}

// spec: join-84
func TestRandomFiltersAgainstOracle(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	const rounds, filtersPerRound = 150, 30
	seen := struct{ some, none, all, pruned, held, empty int }{}
	for seed := range uint64(rounds) {
		r := randomExpr{rand.New(rand.NewPCG(seed, 7))}
		batch := r.batch(mem)
		ranges := r.rangesOf(batch)
		lookup := func(column string) (Range, bool) { known, ok := ranges[column]; return known, ok }
		var dst []int32
		for range filtersPerRound {
			text := r.condition(r.IntN(4))
			e, err := Parse(text)
			require.NoError(t, err, text)
			f, err := e.Bind(everyType())
			require.NoError(t, err, text)

			want := oracle(e, batch)
			parts, err := e.BindConjuncts(everyType())
			require.NoError(t, err, text)
			require.Equal(t, f.String(), All(parts...).String(), text)
			again, err := All(All(parts...), f).Evaluate(batch, nil, nil)
			require.NoError(t, err)
			require.ElementsMatch(t, want, again, "filters share what they are made of: %s", text)
			dst, err = f.Evaluate(batch, dst, nil)
			require.NoError(t, err)
			require.Equal(t, want, append([]int32{}, dst...), "seed %d: %s\nbound: %s", seed, text, f)

			canonical, err := Parse(e.String())
			require.NoError(t, err)
			require.Equal(t, e.String(), canonical.String())
			require.Equal(t, want, oracle(canonical, batch), "canonical text of %s", text)
			require.Equal(t, f.String(), bind(t, f.String(), everyType()).String(), text)

			may := f.MayMatch(lookup)
			if !may {
				require.Empty(t, want, "seed %d: pruned %s\nbound: %s\nranges: %+v", seed, text, f, ranges)
			}
			held := f.MayHold(func(name string, values []Value) bool {
				c := bind(t, quoteName(name)+" IS NULL", everyType()).root.(*null).column
				rows, err := newFilter(newLeaf(c, test{op: eq, members: len(values) > 1}, values)).Evaluate(batch, nil, nil)
				require.NoError(t, err)
				return len(rows) > 0
			})
			if !held {
				require.Empty(t, want, "seed %d: held %s\nbound: %s", seed, text, f)
				seen.held++
			}
			switch n := len(want); {
			case n == int(batch.NumRows()) && n > 0:
				seen.all++
			case n > 0:
				seen.some++
			default:
				seen.none++
			}
			if !may && batch.NumRows() > 0 {
				seen.pruned++
			}
			if batch.NumRows() == 0 {
				seen.empty++
			}
		}
		batch.Release()
	}
	t.Logf("coverage: %+v", seen)
	require.Greater(t, seen.some, 1000)
	require.Greater(t, seen.none, 300)
	require.Greater(t, seen.all, 100)
	require.Greater(t, seen.pruned, 200)
	require.Greater(t, seen.held, 200)
}
