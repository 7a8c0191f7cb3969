package joinertest

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

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
)

// Family is a set of comparable column types, and some values.
type Family struct {
	Types  []arrow.DataType
	values []string
}

// Families returns all families of key types.
func Families(t *testing.T) []Family {
	words := []string{"", "a", "aa", "b", "ab", "ba", "abcdefgh", "abcdefghi"}
	binary := []string{"", "AA==", "AAA=", "AAAA", "AAAAAAAAAAA=", "AQAAAAAAAAA="}
	all := []Family{
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
	for i, f := range all { // in Arrow's text form, whatever the type
		for _, dt := range f.Types {
			var cells Rows
			for _, v := range f.values {
				cells = append(cells, []string{v})
			}
			r := Record(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{Field("v", dt)}, nil), cells)
			written := Text(t, r)
			r.Release()
			if dt != f.Types[0] && len(f.Types) > 1 {
				require.Len(t, written, len(all[i].values))
				continue
			}
			all[i].values = written
		}
	}
	return all
}

// Written returns values in the text form that Arrow has for a type.
func Written(t *testing.T, dt arrow.DataType, values ...string) []string {
	var cells Rows
	for _, v := range values {
		cells = append(cells, []string{v})
	}
	r := Record(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{Field("v", dt)}, nil), cells)
	defer r.Release()
	return Text(t, r)
}

// TimeType is a time column's type, with some times in ascending order and their numbers
// in its unit.
type TimeType struct {
	dt     arrow.DataType
	values []string
	ticks  map[string]int64
}

// TimeTypes returns types of time columns.
func TimeTypes(t *testing.T) []TimeType {
	all := []TimeType{
		{arrow.PrimitiveTypes.Int64, []string{"-9223372036854775808", "-1", "0", "1", "2", "7", "9223372036854775807"}, nil},
		{arrow.FixedWidthTypes.Date32, []string{"1969-12-31", "1970-01-01", "1970-01-02", "1970-01-05"}, nil},
		{arrow.FixedWidthTypes.Timestamp_us, []string{"1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000003Z"}, nil},
	}
	numbers := [][]int64{{-1 << 63, -1, 0, 1, 2, 7, 1<<63 - 1}, {-1, 0, 1, 4}, {-1, 0, 1, 3}}
	for i := range all {
		all[i].values, all[i].ticks = Written(t, all[i].dt, all[i].values...), map[string]int64{}
		for k, v := range all[i].values {
			all[i].ticks[v] = numbers[i][k]
		}
	}
	return all
}

// World is one random case. Training rows are an id, keys, a time, and a word and a number
// that staging tables may overlay.
type World struct {
	Codes    bool // whether staging rows have codes where the joiner allows them
	Training Table
	Columns  []int
	Staging  []Staging
}

// Staging is one staging table as the oracle sees it. Its rows are an id, keys, a time, a
// word, a number and a rank.
type Staging struct {
	Table
	Key      []int // positions in staging rows
	At       []int // positions in training rows
	Columns  []int
	Rule     joiner.Rule
	Spec     joiner.BuildSpec
	defaults []string // by position in columns; "" is none
	ticks    map[string]int64
}

// extra returns the columns after the keys.
func extra(c TimeType) []arrow.Field {
	return []arrow.Field{Field("t", c.dt), Field("word", arrow.BinaryTypes.String), Field("number", arrow.PrimitiveTypes.Int64)}
}

func extraRows(r *rand.Rand, all Rows, c TimeType) {
	nullsOf := 1 + r.IntN(10)
	maybe := func(v string) string {
		if r.IntN(nullsOf) == 0 {
			return Null
		}
		return v
	}
	for i := range all {
		all[i] = append(slices.Clone(all[i]), maybe(OneOf(r, c.values)),
			maybe(OneOf(r, []string{"", "x", "yy"})), maybe(strconv.Itoa(r.IntN(4)-1)))
	}
}

// RandomWorld returns training rows and up to four staging tables that are keyed on some of
// their keys.
func RandomWorld(r *rand.Rand, all []Family, times []TimeType) World {
	keys, c := make([]Family, 1+r.IntN(3)), OneOf(r, times)
	w := World{Training: Table{Name: "training", Fields: []arrow.Field{Field("id", arrow.PrimitiveTypes.Int64)}}}
	for i := range keys {
		keys[i] = all[r.IntN(len(all))]
		w.Training.Fields = append(w.Training.Fields, Field(fmt.Sprintf("k%d", i), OneOf(r, keys[i].Types)))
	}
	w.Training.Fields = append(w.Training.Fields, extra(c)...)
	w.Training.Rows = RandomRows(r, r.IntN(60), keys)
	extraRows(r, w.Training.Rows, c)
	w.Training.Cuts = randomCuts(r, len(w.Training.Rows))
	w.Columns = append([]int{0}, someOf(r, len(w.Training.Fields))...)
	for s := range r.IntN(5) {
		w.Staging = append(w.Staging, w.randomStaging(r, fmt.Sprintf("s%d", s), keys, c))
	}
	return w
}

func (w *World) randomStaging(r *rand.Rand, name string, keys []Family, c TimeType) Staging {
	staging := Staging{Table: Table{Name: name, Fields: []arrow.Field{Field("id", arrow.PrimitiveTypes.Int64)}}, ticks: c.ticks}
	for i, k := range r.Perm(len(keys))[:1+r.IntN(len(keys))] {
		staging.Fields = append(staging.Fields, Field(fmt.Sprintf("r%d", i), OneOf(r, keys[k].Types)))
		staging.At, staging.Key = append(staging.At, k+1), append(staging.Key, i+1)
	}
	of := make([]Family, len(staging.At))
	for i, at := range staging.At {
		of[i] = keys[at-1]
	}
	staging.Rows = RandomRows(r, r.IntN(40), of)
	if r.IntN(2) == 0 {
		staging.Rows = distinct(staging.Rows)
	}
	first := len(staging.Fields)
	staging.Fields = append(staging.Fields, extra(c)...)
	extraRows(r, staging.Rows, c)
	if r.IntN(2) == 0 {
		staging.Sort()
	}
	staging.Cuts = randomCuts(r, len(staging.Rows))
	staging.Rule = joiner.Rule{
		Name: name, Kind: OneOf(r, rule.Kinds()), Duplicates: OneOf(r, []rule.Duplicates{
			rule.DuplicatesError, rule.DuplicatesFirst, rule.DuplicatesFirst, rule.DuplicatesLast, rule.DuplicatesLast,
			rule.DuplicatesAll, rule.DuplicatesAll, rule.DuplicatesAll,
		}), Missing: OneOf(r, append(make([]rule.Missing, 11), rule.MissingError)),
	}
	if staging.shows() {
		staging.Columns = someOf(r, len(staging.Fields))
	}
	staging.Spec = joiner.BuildSpec{Name: name, Strategy: OneOf(r, rule.Strategies()[:4])}
	if r.IntN(3) == 0 {
		staging.Rule.Time = &joiner.TimeRule{Column: len(keys) + 1, Tolerance: OneOf(r, []int64{0, 1, 2, 5, 1<<63 - 1}), Exact: r.IntN(2) == 0}
		staging.Spec.Time = new(first)
	}
	for _, at := range someOf(r, 3) {
		staging.Spec.OrderBy = append(staging.Spec.OrderBy, joiner.Order{Column: first + at, Descending: r.IntN(2) == 0})
	}
	if r.IntN(3) == 0 && staging.shows() {
		staging.Spec.Matched = "matched"
	}
	w.overlay(r, &staging, first)
	staging.giveDefaults(r, first)
	return staging
}

// overlay lets a staging table replace the word and the number.
func (w *World) overlay(r *rand.Rand, staging *Staging, first int) {
	if staging.Rule.Kind != rule.Overlay {
		return
	}
	staging.Rule.Nulls = OneOf(r, rule.AllNulls())
	for _, at := range []int{1, 2} {
		training := slices.Index(w.Columns, len(w.Training.Fields)-3+at)
		field := slices.Index(staging.Columns, first+at)
		if training >= 0 && field >= 0 {
			staging.Rule.Overlays = append(staging.Rule.Overlays, joiner.OverlayColumn{Training: training, Field: field})
		}
	}
}

// giveDefaults gives the word and the number defaults.
func (x *Staging) giveDefaults(r *rand.Rand, first int) {
	if r.IntN(2) == 0 {
		return
	}
	x.defaults, x.Spec.Defaults = make([]string, len(x.Columns)), make([]arrow.Array, len(x.Columns))
	for i, at := range x.Columns {
		switch at {
		case first + 1:
			b := array.NewStringBuilder(memory.DefaultAllocator)
			b.Append("none")
			x.defaults[i], x.Spec.Defaults[i] = "none", b.NewArray()
		case first + 2:
			b := array.NewInt64Builder(memory.DefaultAllocator)
			b.Append(-7)
			x.defaults[i], x.Spec.Defaults[i] = "-7", b.NewArray()
		}
	}
}

// Sort sorts the rows by their keys, with nulls first or last.
func (x *Staging) Sort() {
	schema := arrow.NewSchema(x.Fields, nil)
	r := Record(nil, memory.DefaultAllocator, schema, x.Rows)
	defer r.Release()
	at := make([]int, len(x.Rows))
	for i := range at {
		at[i] = i
	}
	nullsLast := len(x.Rows)%2 == 0
	slices.SortStableFunc(at, func(i, j int) int {
		for _, k := range x.Key {
			c := r.Column(k)
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
			order, err := joiner.NewRowOrder(schema, []joiner.Order{{Column: k}})
			if err != nil {
				panic(err) // every key can be ordered
			}
			if d := order.Compare(r, i, r, j); d != 0 {
				return d
			}
		}
		return 0
	})
	sorted := make(Rows, len(x.Rows))
	for i, from := range at {
		sorted[i] = x.Rows[from]
	}
	x.Rows = sorted
}

// OneOf returns a random element of a list.
func OneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func someOf(r *rand.Rand, n int) []int { return r.Perm(n)[:r.IntN(n+1)] }

// RandomRows returns rows of a number and keys, with nulls and repeats.
func RandomRows(r *rand.Rand, n int, keys []Family) Rows {
	out, nullsOf := make(Rows, n), 1+r.IntN(20)
	for i := range out {
		out[i] = []string{strconv.Itoa(i)}
		if i > 0 && r.IntN(2) == 0 { // a run of one key
			out[i] = append(out[i], out[i-1][1:]...)
			continue
		}
		for _, k := range keys {
			v := OneOf(r, k.values)
			if r.IntN(nullsOf) == 0 {
				v = Null
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}

// distinct keeps one row of each key.
func distinct(all Rows) Rows {
	seen, out := map[string]bool{}, Rows{}
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

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
