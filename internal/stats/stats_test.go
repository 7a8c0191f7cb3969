package stats_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/stats"
)

// table has the rows of a file, as JSON.
type table struct {
	schema *arrow.Schema
	rows   []string
}

// batches returns the rows from one number to another, in batches that end at random, and slices of larger ones.
func (d table) batches(t testing.TB, rng *rand.Rand) (out []arrow.RecordBatch) {
	t.Helper()
	whole, _, err := array.RecordFromJSON(memory.DefaultAllocator, d.schema, strings.NewReader("["+strings.Join(d.rows, ",")+"]"))
	require.NoError(t, err)
	for from := int64(0); from < whole.NumRows(); {
		to := min(whole.NumRows(), from+1+rng.Int64N(200))
		out = append(out, whole.NewSlice(from, to))
		from = to
	}
	return out
}

// describe describes the rows of batches.
func describe(t *testing.T, d table, sampling stats.Sampling, batches []arrow.RecordBatch) *stats.Part {
	t.Helper()
	p, number := stats.NewPart(d.schema.Fields(), sampling), int64(0)
	for _, b := range batches {
		numbers := make([]int64, b.NumRows())
		for i := range numbers {
			numbers[i], number = number, number+1
		}
		bytes, err := p.Select(b, numbers)
		require.NoError(t, err)
		before := p.Sampled
		require.NoError(t, p.Add(b, memory.DefaultAllocator))
		require.Equal(t, p.Sampled > before, bytes > 0)
	}
	return p
}

// summaries returns the summaries of all columns, as JSON.
func summaries(t *testing.T, d table, p *stats.Part) string {
	t.Helper()
	var all []stats.Summary
	for i, f := range d.schema.Fields() {
		all = append(all, p.Summarize(i, f.Name, true, nil)...)
	}
	out, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	return string(out)
}

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Float64), Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
	{Name: "m", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}, Nullable: true},
	{Name: "o", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true}), Nullable: true},
}, nil)

// random returns rows.
func random(rng *rand.Rand, rows int) table {
	d := table{schema: schema}
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for range rows {
		var list []string
		for range rng.IntN(4) {
			list = append(list, pick("0", "3", "4", "null"))
		}
		d.rows = append(d.rows, fmt.Sprintf(`{"i": %s, "f": %s, "s": %s, "l": %s, "b": %s, "d": %s, "m": %s, "o": %s}`,
			pick("null", "0", "7", text(rng.Int64()), "-9223372036854775808"),
			pick("null", "0", "-2.5", fmt.Sprint(rng.NormFloat64()), `"NaN"`, `"+Inf"`),
			pick("null", `""`, `"a"`, fmt.Sprintf(`"%x"`, rng.Uint64())),
			pick("null", "[]", "["+strings.Join(list, ",")+"]"),
			pick("null", "true", "false"), pick("null", `"2026-10-01"`, `"1969-12-31"`), pick("null", `"-12.30"`, `"0.01"`), pick("null", `{"x": 1}`)))
	}
	return d
}

// spec: stats-3
func TestPartsDependOnlyOnRows(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := random(rng, rng.IntN(3000))
		sampling := stats.Sampling{Seed: rng.Uint64(), Level: rng.IntN(4)}
		one, two := describe(t, d, sampling, d.batches(t, rng)), describe(t, d, sampling, d.batches(t, rng))
		require.Equal(t, summaries(t, d, one), summaries(t, d, two))
	}
}

// Merged parts have the counts and extremes of all rows, and means up to rounding.
//
// spec: stats-1, stats-2
func TestPartsAreExact(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		whole, merged := table{schema: schema}, stats.NewPart(schema.Fields(), stats.Sampling{})
		for range rng.IntN(4) {
			d := random(rng, rng.IntN(500))
			whole.rows = append(whole.rows, d.rows...)
			merged.Merge(describe(t, d, stats.Sampling{}, d.batches(t, rng)))
		}
		require.EqualValues(t, len(whole.rows), merged.Rows())
		checkExact(t, whole, merged)
		merged.Release()
	}
}

// checkExact compares the columns i, f, s and l with what the rows' JSON says.
func checkExact(t *testing.T, d table, p *stats.Part) {
	t.Helper()
	got := map[string]stats.Summary{}
	for i, f := range d.schema.Fields() {
		for _, s := range p.Summarize(i, f.Name, true, nil) {
			got[s.Name] = s
		}
	}
	var ints []int64
	var floats, norms, elements []float64
	texts, distinct, nan, infinite, lists, lengths := 0, map[string]bool{}, int64(0), int64(0), int64(0), map[int]int64{}
	for _, line := range d.rows {
		var row struct {
			I *int64
			F any
			S *string
			L *[]*float64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		if row.I != nil {
			ints = append(ints, *row.I)
		}
		switch f := row.F.(type) {
		case float64:
			floats = append(floats, float64(float32(f)))
		case string:
			if f == "NaN" {
				nan++
			} else {
				infinite++
			}
		}
		if row.S != nil {
			texts++
			distinct[*row.S] = true
		}
		if row.L != nil {
			lists++
			lengths[len(*row.L)]++
			sum := 0.0
			for _, e := range *row.L {
				if e != nil {
					sum += *e * *e
					elements = append(elements, *e)
				}
			}
			norms = append(norms, math.Sqrt(sum))
		}
	}
	rows := int64(len(d.rows))
	require.Equal(t, rows-int64(len(ints)), got["i"].Nulls)
	if len(ints) > 0 {
		require.Equal(t, text(slices.Min(ints)), got["i"].Min.String())
		require.Equal(t, text(slices.Max(ints)), got["i"].Max.String())
		slices.Sort(ints)
		require.Equal(t, text(ints[(len(ints)+1)/2-1]), got["i"].Quantiles[3].String(), "the median")
		require.EqualValues(t, len(slices.Compact(ints)), *got["i"].Distinct)
		require.True(t, got["i"].DistinctExact)
	}
	require.Equal(t, []int64{nan, infinite}, []int64{got["f"].NaN, got["f"].Infinite})
	if len(floats) > 0 {
		mean, deviation := moments(floats)
		require.InDelta(t, mean, number(t, got["f"].Mean), 1e-9)
		require.InDelta(t, deviation, number(t, got["f"].Deviation), 1e-9)
		require.InDelta(t, slices.Min(floats), number(t, got["f"].Min), 0)
		require.InDelta(t, slices.Max(floats), number(t, got["f"].Max), 0)
	}
	require.EqualValues(t, texts, got["s"].Values)
	require.EqualValues(t, len(distinct), *got["s"].Distinct)
	require.Equal(t, lists, got["l"].Values)
	require.Equal(t, lists, got["l.lengths"].Values)
	require.EqualValues(t, len(elements), got["l.elements"].Values)
	if lists > 0 {
		require.Equal(t, lengths[0], *got["l.lengths"].Zeros)
		mean, _ := moments(norms)
		require.InDelta(t, mean, number(t, got["l.norms"].Mean), 1e-9)
	}
	require.Zero(t, got["o"].Distinct)
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

func moments(of []float64) (mean, deviation float64) {
	for _, x := range of {
		mean += x / float64(len(of))
	}
	for _, x := range of {
		deviation += (x - mean) * (x - mean) / float64(len(of))
	}
	return mean, math.Sqrt(deviation)
}

func number(t *testing.T, v *stats.Value) (x float64) {
	t.Helper()
	require.NotNil(t, v)
	encoded, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &x))
	return x
}

// The sums of large numbers are beyond float64: their mean and deviation are left out, and never wrong.
//
// spec: stats-2
func TestMeansBeyondFloatsAreLeftOut(t *testing.T) {
	one := arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64}}, nil)
	rng := rand.New(rand.NewPCG(1, 5))
	for name, c := range map[string]struct {
		values          []float64
		mean, deviation bool
	}{
		"extremes":       {[]float64{math.MaxFloat64, -math.MaxFloat64, 1}, false, false},
		"squares":        {[]float64{1e200, 3e200}, true, false},
		"square of sums": {slices.Concat([]float64{0}, slices.Repeat([]float64{1e153}, 1000)), true, false},
		"in range":       {[]float64{1e150, 3e150}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, parts := table{schema: one}, stats.NewPart(one.Fields(), stats.Sampling{})
			for _, v := range c.values {
				row := fmt.Sprintf(`{"f": %g}`, v)
				d.rows = append(d.rows, row)
				single := table{schema: one, rows: []string{row}}
				parts.Merge(describe(t, single, stats.Sampling{}, single.batches(t, rng)))
			}
			defer parts.Release()
			whole := describe(t, d, stats.Sampling{}, d.batches(t, rng))
			defer whole.Release()
			for _, p := range []*stats.Part{whole, parts} {
				got := p.Summarize(0, "f", true, nil)[0]
				mean, deviation := moments(c.values)
				require.Equal(t, []bool{c.mean, c.deviation}, []bool{got.Mean != nil, got.Deviation != nil})
				if c.mean {
					require.InEpsilon(t, mean, number(t, got.Mean), 1e-9)
				}
				if c.deviation {
					require.InEpsilon(t, deviation, number(t, got.Deviation), 1e-9)
				}
			}
		})
	}
}

// A zero has no sign, whether it is an extreme, a quantile or a frequent value.
func TestZerosHaveNoSign(t *testing.T) {
	d := table{schema: arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64}}, nil), rows: slices.Repeat([]string{`{"f": -0.0}`}, 20)}
	p := describe(t, d, stats.Sampling{}, d.batches(t, rand.New(rand.NewPCG(1, 6))))
	defer p.Release()
	got := p.Summarize(0, "f", true, nil)[0]
	require.Equal(t, []string{"0", "0", "0", "0"}, []string{got.Min.String(), got.Max.String(), got.Quantiles[3].String(), got.Top[0].Value.String()})
}

// Structs are not described, at any depth of lists.
//
// spec: stats-5
func TestPartsThatAreNotDescribed(t *testing.T) {
	structs, text := arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64}), arrow.BinaryTypes.String
	for want, of := range map[string]arrow.DataType{
		"c": structs, "c.elements": arrow.ListOf(structs), "c.elements.elements": arrow.ListOf(arrow.ListOf(arrow.MapOf(text, text))),
	} {
		require.Equal(t, want, stats.NotDescribed("c", of))
	}
	for _, of := range []arrow.DataType{text, arrow.ListOf(text), arrow.ListOf(arrow.ListOf(text))} {
		require.Empty(t, stats.NotDescribed("c", of))
	}
}

// Of 200 samples, the quantiles of at most 6 are farther away than the error that is said: 2 are expected.
//
// spec: stats-4
func TestQuantilesAreWithinTheirError(t *testing.T) {
	const rows = 20_000
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range rows {
		b.Append(int64(i * 7919 % rows)) // each number once
	}
	d := table{schema: arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64}}, nil)}
	whole := array.NewRecordBatch(d.schema, []arrow.Array{b.NewArray()}, rows)
	late := 0
	for seed := range uint64(200) {
		p := describe(t, d, stats.Sampling{Seed: seed, Level: 4}, []arrow.RecordBatch{whole})
		require.InDelta(t, rows/16, p.Sampled, 200)
		far, limit := 0.0, stats.QuantileError(p.Sampled, rows)
		for i, v := range p.Summarize(0, "i", false, nil)[0].Quantiles {
			far = max(far, math.Abs((number(t, &v)+1)/rows-stats.Quantiles[i]))
		}
		if far > limit {
			late++
		}
	}
	require.LessOrEqual(t, late, 6)
	require.Zero(t, stats.QuantileError(rows, rows))
}

// spec: stats-2
func TestDistinctValuesAreNoMoreThanValues(t *testing.T) {
	one := arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for seed := range int64(40) {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for i := range int64(6000) {
			b.Append(i + seed<<32)
		}
		rows := array.NewRecordBatch(one, []arrow.Array{b.NewArray()}, 6000)
		p := describe(t, table{schema: one}, stats.Sampling{Level: 63}, []arrow.RecordBatch{rows})
		n := *p.Summarize(0, "i", false, nil)[0].Distinct
		require.LessOrEqual(t, n, int64(6000))
		require.InEpsilon(t, 6000, n, 4*stats.DistinctError)
	}
}

func TestLevelsSelectSubsets(t *testing.T) {
	require.Equal(t, 0, stats.LevelFor(100, 100))
	require.Equal(t, 1, stats.LevelFor(101, 100))
	require.Equal(t, 6, stats.LevelFor(4_000_000, 1<<16))
	for number := range int64(2000) {
		for level := range 9 {
			if (stats.Sampling{Seed: 5, Level: level + 1}).Selects(number) {
				require.True(t, stats.Sampling{Seed: 5, Level: level}.Selects(number))
			}
		}
	}
}

// The memory of a summary is at least that of the values that it sorts: 8 bytes for a number, the header of a text, and for a list
// also its length and its norm.
//
// spec: stats-7
func TestSummariesStateTheirMemory(t *testing.T) {
	lists := arrow.ListOf(arrow.PrimitiveTypes.Float32)
	for _, c := range []struct {
		of    arrow.DataType
		text  string
		bytes int64
	}{
		{arrow.PrimitiveTypes.Int32, `[{"c": 1}, {"c": null}]`, 2 * 8},
		{arrow.BinaryTypes.String, `[{"c": "a"}, {"c": "b"}]`, 2 * 16},
		{&arrow.FixedSizeBinaryType{ByteWidth: 100}, `[{"c": null}, {"c": null}]`, 2 * (16 + 100)},
		{lists, `[{"c": [1, 2, 3]}, {"c": []}]`, 2*(8+8) + 3*8},
	} {
		schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.of, Nullable: true}}, nil)
		b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(c.text))
		require.NoError(t, err)
		defer b.Release()
		p := stats.NewPart(schema.Fields(), stats.Sampling{})
		defer p.Release()
		require.Zero(t, p.SummaryMemory(0))
		_, err = p.Select(b, []int64{0, 1})
		require.NoError(t, err)
		require.NoError(t, p.Add(b, memory.DefaultAllocator))
		require.GreaterOrEqual(t, p.SummaryMemory(0), c.bytes, c.of)
	}
}

// Values are the same after they were written and read as JSON, so that a client shows what a server has.
func TestValuesAreReadAsTheyAreWritten(t *testing.T) {
	for text, short := range map[string]string{
		`12345678`: "12345678", `12345678.0`: "1.2346e+07", `-3.0`: "-3", `1e+21`: "1e+21", `0.1`: "0.1", `"NaN"`: "NaN", `"3"`: "3", `"a\"<b"`: `a"<b`, `""`: "",
	} {
		var v stats.Value
		require.NoError(t, json.Unmarshal([]byte(text), &v), text)
		require.Equal(t, short, v.Short(), text)
		again, err := json.Marshal(v)
		require.NoError(t, err)
		var back stats.Value
		require.NoError(t, json.Unmarshal(again, &back))
		require.Equal(t, v, back)
		require.JSONEq(t, text, string(again))
	}
	for _, wrong := range []string{`true`, `{}`, `[1]`} {
		require.Error(t, json.Unmarshal([]byte(wrong), new(stats.Value)), wrong)
	}
}
