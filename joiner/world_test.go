package joiner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
)

// family is a set of column types whose values can be equal, and some values.
type family struct {
	types  []arrow.DataType
	values []string
}

func families(t *testing.T) []family {
	words := []string{"", "a", "aa", "b", "ab", "ba", "abcdefgh", "abcdefghi"}
	binary := []string{"", "AA==", "AAA=", "AAAA", "AAAAAAAAAAA=", "AQAAAAAAAAA="}
	all := []family{
		{[]arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64}, []string{"0", "-1", "1", "7", "2147483647", "-2147483648"}},
		{[]arrow.DataType{arrow.PrimitiveTypes.Int64}, []string{"0", "16", "32", "-9223372036854775808", "9223372036854775807"}},
		{[]arrow.DataType{arrow.FixedWidthTypes.Date32}, []string{"1970-01-01", "1969-12-31", "2026-10-01"}},
		{[]arrow.DataType{arrow.FixedWidthTypes.Time64us}, []string{"00:00:00", "00:00:01", "23:59:59.999999"}},
		{
			[]arrow.DataType{arrow.FixedWidthTypes.Timestamp_us, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "+00:00"}},
			[]string{"1970-01-01T00:00:00Z", "2026-10-01T00:00:00.000001Z", "1960-01-01T00:00:00Z"},
		},
		{[]arrow.DataType{&arrow.TimestampType{Unit: arrow.Nanosecond}}, []string{"1970-01-01T00:00:00", "2026-10-01T00:00:00.000000001"}},
		{
			[]arrow.DataType{&arrow.Decimal128Type{Precision: 9, Scale: 2}, &arrow.Decimal128Type{Precision: 30, Scale: 2}},
			[]string{"0", "1.5", "-1.5", "1234567.89"},
		},
		{[]arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString}, words},
		{[]arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString}, words},
		{[]arrow.DataType{arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary}, binary},
		{[]arrow.DataType{&arrow.FixedSizeBinaryType{ByteWidth: 4}}, []string{"AAAAAA==", "AAAAAQ==", "AQAAAA=="}},
	}
	for i, f := range all { // as Arrow writes them, in whichever type
		for _, dt := range f.types {
			var cells rows
			for _, v := range f.values {
				cells = append(cells, []string{v})
			}
			r := record(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{field("v", dt)}, nil), cells)
			written := text(t, r)
			r.Release()
			if dt != f.types[0] && len(f.types) > 1 {
				require.Len(t, written, len(all[i].values))
				continue
			}
			all[i].values = written
		}
	}
	return all
}

// written makes values as Arrow writes those of a type.
func written(t *testing.T, dt arrow.DataType, values ...string) []string {
	var cells rows
	for _, v := range values {
		cells = append(cells, []string{v})
	}
	r := record(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{field("v", dt)}, nil), cells)
	defer r.Release()
	return text(t, r)
}

// clock is a time column's type, with some times in ascending order and what
// they are in its unit.
type clock struct {
	dt     arrow.DataType
	values []string
	ticks  map[string]int64
}

func clocks(t *testing.T) []clock {
	all := []clock{
		{arrow.PrimitiveTypes.Int64, []string{"-9223372036854775808", "-1", "0", "1", "2", "7", "9223372036854775807"}, nil},
		{arrow.FixedWidthTypes.Date32, []string{"1969-12-31", "1970-01-01", "1970-01-02", "1970-01-05"}, nil},
		{arrow.FixedWidthTypes.Timestamp_us, []string{"1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000003Z"}, nil},
	}
	numbers := [][]int64{{-1 << 63, -1, 0, 1, 2, 7, 1<<63 - 1}, {-1, 0, 1, 4}, {-1, 0, 1, 3}}
	for i := range all {
		all[i].values, all[i].ticks = written(t, all[i].dt, all[i].values...), map[string]int64{}
		for k, v := range all[i].values {
			all[i].ticks[v] = numbers[i][k]
		}
	}
	return all
}

// world is one random case. Training rows are an id, keys, a time, and a word
// and a number that build sides may overlay.
type world struct {
	training table
	columns  []int
	sides    []asked
}

// asked is one build side as the oracle sees it. Its rows are an id, keys, a
// time, a word, a number and a rank.
type asked struct {
	table
	key      []int // positions in staging rows
	at       []int // positions in training rows
	columns  []int
	rule     Rule
	spec     BuildSpec
	defaults []string // by position in columns; "" is none
	ticks    map[string]int64
}

// extra are the columns behind the keys.
func extra(c clock) []arrow.Field {
	return []arrow.Field{field("t", c.dt), field("word", arrow.BinaryTypes.String), field("number", arrow.PrimitiveTypes.Int64)}
}

func extraRows(r *rand.Rand, all rows, c clock) {
	nullsOf := 1 + r.IntN(10)
	maybe := func(v string) string {
		if r.IntN(nullsOf) == 0 {
			return null
		}
		return v
	}
	for i := range all {
		all[i] = append(slices.Clone(all[i]), maybe(oneOf(r, c.values)),
			maybe(oneOf(r, []string{"", "x", "yy"})), maybe(strconv.Itoa(r.IntN(4)-1)))
	}
}

// randomWorld makes training rows and up to four sides that are keyed on some
// of their keys.
func randomWorld(r *rand.Rand, all []family, times []clock) world {
	keys, c := make([]family, 1+r.IntN(3)), oneOf(r, times)
	w := world{training: table{name: "training", fields: []arrow.Field{field("id", arrow.PrimitiveTypes.Int64)}}}
	for i := range keys {
		keys[i] = all[r.IntN(len(all))]
		w.training.fields = append(w.training.fields, field(fmt.Sprintf("k%d", i), oneOf(r, keys[i].types)))
	}
	w.training.fields = append(w.training.fields, extra(c)...)
	w.training.rows = randomRows(r, r.IntN(60), keys)
	extraRows(r, w.training.rows, c)
	w.training.cuts = randomCuts(r, len(w.training.rows))
	w.columns = append([]int{0}, someOf(r, len(w.training.fields))...)
	for s := range r.IntN(5) {
		w.sides = append(w.sides, w.randomSide(r, fmt.Sprintf("s%d", s), keys, c))
	}
	return w
}

func (w *world) randomSide(r *rand.Rand, name string, keys []family, c clock) asked {
	side := asked{table: table{name: name, fields: []arrow.Field{field("id", arrow.PrimitiveTypes.Int64)}}, ticks: c.ticks}
	for i, k := range r.Perm(len(keys))[:1+r.IntN(len(keys))] {
		side.fields = append(side.fields, field(fmt.Sprintf("r%d", i), oneOf(r, keys[k].types)))
		side.at, side.key = append(side.at, k+1), append(side.key, i+1)
	}
	of := make([]family, len(side.at))
	for i, at := range side.at {
		of[i] = keys[at-1]
	}
	side.rows = randomRows(r, r.IntN(40), of)
	if r.IntN(2) == 0 {
		side.rows = distinct(side.rows)
	}
	first := len(side.fields)
	side.fields = append(side.fields, extra(c)...)
	extraRows(r, side.rows, c)
	if r.IntN(2) == 0 {
		side.sort()
	}
	side.cuts = randomCuts(r, len(side.rows))
	side.rule = Rule{
		Name: name, Kind: rule.Kind(r.IntN(5)), Duplicates: oneOf(r, []rule.Duplicates{0, 1, 1, 2, 2, 3, 3, 3}), Missing: oneOf(r, append(make([]rule.Missing, 11), rule.MissingError)),
	}
	if side.shows() {
		side.columns = someOf(r, len(side.fields))
	}
	side.spec = BuildSpec{Name: name, Strategy: rule.Strategy(r.IntN(4))}
	if r.IntN(3) == 0 {
		side.rule.Time = &TimeRule{Column: len(keys) + 1, Tolerance: oneOf(r, []int64{0, 1, 2, 5, 1<<63 - 1}), Exact: r.IntN(2) == 0}
		side.spec.Time = new(first)
	}
	for _, at := range someOf(r, 3) {
		side.spec.OrderBy = append(side.spec.OrderBy, Order{Column: first + at, Descending: r.IntN(2) == 0})
	}
	if r.IntN(3) == 0 && side.shows() {
		side.spec.Matched = "matched"
	}
	w.overlay(r, &side, first)
	side.giveDefaults(r, first)
	return side
}

// overlay lets a side replace the word and the number.
func (w *world) overlay(r *rand.Rand, side *asked, first int) {
	if side.rule.Kind != rule.Overlay {
		return
	}
	side.rule.Nulls = oneOf(r, rule.AllNulls())
	for _, at := range []int{1, 2} {
		training := slices.Index(w.columns, len(w.training.fields)-3+at)
		staging := slices.Index(side.columns, first+at)
		if training >= 0 && staging >= 0 {
			side.rule.Overlays = append(side.rule.Overlays, OverlayColumn{Training: training, Field: staging})
		}
	}
}

// giveDefaults gives the word and the number defaults.
func (x *asked) giveDefaults(r *rand.Rand, first int) {
	if r.IntN(2) == 0 {
		return
	}
	x.defaults, x.spec.Defaults = make([]string, len(x.columns)), make([]arrow.Array, len(x.columns))
	for i, at := range x.columns {
		switch at {
		case first + 1:
			b := array.NewStringBuilder(memory.DefaultAllocator)
			b.Append("none")
			x.defaults[i], x.spec.Defaults[i] = "none", b.NewArray()
		case first + 2:
			b := array.NewInt64Builder(memory.DefaultAllocator)
			b.Append(-7)
			x.defaults[i], x.spec.Defaults[i] = "-7", b.NewArray()
		}
	}
}

// sort puts the rows in the order of their keys, rows with a null in their key
// first or last.
func (x *asked) sort() {
	schema := arrow.NewSchema(x.fields, nil)
	r := record(nil, memory.DefaultAllocator, schema, x.rows)
	defer r.Release()
	at := make([]int, len(x.rows))
	for i := range at {
		at[i] = i
	}
	nullsLast := len(x.rows)%2 == 0
	slices.SortStableFunc(at, func(i, j int) int {
		for _, k := range x.key {
			c := r.Column(k)
			compares, _ := comparesOf(c.DataType())
			nulls := truth(c.IsNull(i)) - truth(c.IsNull(j))
			if !nullsLast {
				nulls = -nulls
			}
			if nulls != 0 {
				return nulls
			}
			if c.IsNull(i) {
				continue
			}
			if d := compares(c, i, c, j); d != 0 {
				return d
			}
		}
		return 0
	})
	sorted := make(rows, len(x.rows))
	for i, from := range at {
		sorted[i] = x.rows[from]
	}
	x.rows = sorted
}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func someOf(r *rand.Rand, n int) []int { return r.Perm(n)[:r.IntN(n+1)] }

func randomRows(r *rand.Rand, n int, keys []family) rows {
	out, nullsOf := make(rows, n), 1+r.IntN(20)
	for i := range out {
		out[i] = []string{strconv.Itoa(i)}
		if i > 0 && r.IntN(2) == 0 { // a run of one key
			out[i] = append(out[i], out[i-1][1:]...)
			continue
		}
		for _, k := range keys {
			v := oneOf(r, k.values)
			if r.IntN(nullsOf) == 0 {
				v = null
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}

// distinct leaves one row of each key.
func distinct(all rows) rows {
	seen, out := map[string]bool{}, rows{}
	for _, row := range all {
		if key := fmt.Sprintf("%q", row[1:]); !seen[key] {
			seen[key] = true
			out = append(out, row)
		}
	}
	return out
}

func randomCuts(r *rand.Rand, n int) []int {
	var cuts []int
	for left := n; r.IntN(4) > 0; {
		cut := r.IntN(left + 1)
		cuts, left = append(cuts, cut), left-cut
	}
	return cuts
}
