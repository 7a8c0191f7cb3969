package stats_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/stats"
)

// summaryOf describes one column.
func summaryOf(t *testing.T, column arrow.Array, values bool) stats.Summary {
	t.Helper()
	one := arrow.NewSchema([]arrow.Field{{Name: "x", Type: column.DataType(), Nullable: true}}, nil)
	rows := array.NewRecordBatch(one, []arrow.Array{column}, int64(column.Len()))
	p := describe(t, table{schema: one}, stats.Sampling{}, []arrow.RecordBatch{rows})
	defer p.Release()
	return p.Summarize(0, "x", values, nil)[0]
}

func integers(of ...int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(of, nil)
	return b.NewArray()
}

func floats(of ...float64) arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(of, nil)
	return b.NewArray()
}

// exact returns an integer, or the nearest float of a text.
func exact(t *testing.T, text string) *big.Rat {
	t.Helper()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return new(big.Rat).SetInt64(n)
	}
	x, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return new(big.Rat).SetFloat64(x)
}

// checkHistogram counts values again, between the edges as they are printed.
func checkHistogram(t *testing.T, h *stats.Histogram, values []*big.Rat) {
	t.Helper()
	if len(values) == 0 {
		require.Nil(t, h)
		return
	}
	require.NotNil(t, h)
	n := len(h.Counts)
	require.Len(t, h.Edges, n+1)
	require.LessOrEqual(t, n, 32)
	edges, counts, below, above := make([]*big.Rat, n+1), make([]int64, n), int64(0), int64(0)
	for i, e := range h.Edges {
		edges[i] = exact(t, e.String())
		require.True(t, i == 0 || edges[i-1].Cmp(edges[i]) <= 0, "edges ascend")
	}
	for _, v := range values {
		switch {
		case v.Cmp(edges[0]) < 0:
			below++
		case v.Cmp(edges[n]) > 0:
			above++
		default:
			at := n - 1
			for at > 0 && v.Cmp(edges[at]) < 0 {
				at--
			}
			counts[at]++
		}
	}
	require.Equal(t, counts, h.Counts)
	require.Equal(t, []int64{below, above}, []int64{h.Below, h.Above})
}

// world returns values of one of several shapes.
func world(rng *rand.Rand) (out []float64) {
	shape, scale := rng.IntN(6), math.Pow(10, float64(rng.IntN(12)-4))
	for range rng.IntN(400) {
		x := rng.NormFloat64()
		switch shape {
		case 0:
			x = rng.Float64()
		case 1:
			x = math.Exp(3 * x) // heavy tail
		case 2:
			x = float64(rng.IntN(3))
		case 3:
			x = 0 // a spike, and few other values
			if rng.IntN(50) == 0 {
				x = math.Exp(5 * rng.NormFloat64())
			}
		case 4:
			x = math.Copysign(math.MaxFloat64*rng.Float64(), x)
			scale = 1
		}
		out = append(out, x*scale)
	}
	return out
}

// Each value of the sample is counted once, in the bin whose edges say so.
//
// spec: stats-9, stats-10
func TestHistogramsCountTheSample(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var ints []int64
		var exactInts, exactFloats []*big.Rat
		all := world(rng)
		for _, x := range all {
			exactFloats = append(exactFloats, new(big.Rat).SetFloat64(x))
			if n := int64(x); math.Abs(x) < 1e18 {
				ints, exactInts = append(ints, n), append(exactInts, new(big.Rat).SetInt64(n))
			}
		}
		checkHistogram(t, summaryOf(t, floats(append(all, math.NaN(), math.Inf(1), math.Inf(-1))...), true).Histogram, exactFloats)
		got := summaryOf(t, integers(ints...), true).Histogram
		checkHistogram(t, got, exactInts)
		checkWidths(t, got)
		if len(all) > 0 {
			checkLimits(t, all, summaryOf(t, floats(all...), true).Histogram)
		}
		rng.Shuffle(len(ints), func(a, b int) { ints[a], ints[b] = ints[b], ints[a] })
		require.Equal(t, got, summaryOf(t, integers(ints...), true).Histogram, "the order of rows does not matter")
	}
}

// checkWidths checks that all bins of integers but the last have the same width.
func checkWidths(t *testing.T, h *stats.Histogram) {
	t.Helper()
	if h == nil || len(h.Counts) < 3 {
		return
	}
	edge := func(i int) *big.Rat { return exact(t, h.Edges[i].String()) }
	width := new(big.Rat).Sub(edge(1), edge(0))
	for i := 1; i < len(h.Counts)-1; i++ {
		require.Zero(t, width.Cmp(new(big.Rat).Sub(edge(i+1), edge(i))))
	}
}

// checkLimits computes the limits of bins as the specification says.
func checkLimits(t *testing.T, values []float64, h *stats.Histogram) {
	t.Helper()
	values = slices.Sorted(slices.Values(values))
	at := func(percent int) float64 { return values[max(0, (percent*len(values)+99)/100-1)] } // rounded up
	low, high := at(5), at(95)
	if low == high {
		low, high = at(1), at(99)
	}
	from, to := values[0], values[len(values)-1]
	if low != high {
		reach := high/2 - low/2
		from, to = max(from, low-reach), min(to, high+reach)
	}
	got := make([]float64, 2)
	for i, e := range []stats.Value{h.Edges[0], h.Edges[len(h.Edges)-1]} {
		var err error
		got[i], err = strconv.ParseFloat(e.String(), 64)
		require.NoError(t, err)
	}
	require.Equal(t, []float64{from, to}, got)
}

// spec: stats-9, stats-10
func TestHistogramsOfFewAndExtremeValues(t *testing.T) {
	const low, high = math.MinInt64, math.MaxInt64
	for _, c := range []struct {
		name   string
		column arrow.Array
		want   string
	}{
		{"one value", integers(7), `{"edges": [7, 7], "counts": [1], "below": 0, "above": 0}`},
		{"equal values", floats(2.5, 2.5, 2.5), `{"edges": [2.5, 2.5], "counts": [3], "below": 0, "above": 0}`},
		{"labels", integers(0, 0, 1, 0, 1, 0, 0, 0), `{"edges": [0, 1, 1], "counts": [6, 2], "below": 0, "above": 0}`},
		{"all integers", integers(low, high), `{"edges": [-9223372036854775808, -3074457345618258602, 3074457345618258604, 9223372036854775807], "counts": [1, 0, 1], "below": 0, "above": 0}`},
		{"no finite values", floats(math.NaN(), math.Inf(1)), `null`},
		{"no values", integers(), `null`},
		{"the smallest numbers", floats(0, math.SmallestNonzeroFloat64), `{"edges": [0, 0, 0, 5e-324], "counts": [0, 0, 2], "below": 0, "above": 0}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(summaryOf(t, c.column, true).Histogram)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
	tail := []int64{1_000_000_000}
	for i := range int64(999) {
		tail = append(tail, i%10)
	}
	h := summaryOf(t, integers(tail...), true).Histogram
	require.EqualValues(t, 1, h.Above)
	require.Equal(t, "13", h.Edges[len(h.Edges)-1].String(), "9 and half of 9, rounded down")
}

// Times are counted as integers, and their edges are texts.
//
// spec: stats-9
func TestHistogramsOfTimes(t *testing.T) {
	b := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"})
	for hour := range arrow.Timestamp(1000) {
		b.Append(hour * 3600_000_000)
	}
	h := summaryOf(t, b.NewArray(), true).Histogram
	require.Len(t, h.Counts, 20)
	require.Equal(t, []string{"1970-01-01T00:00:00Z", "1970-02-11T15:00:00Z"}, []string{h.Edges[0].String(), h.Edges[20].String()})
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.Append("a")
	require.Nil(t, summaryOf(t, texts.NewArray(), true).Histogram)
}

// A bin of one integer says how frequent it is.
//
// spec: stats-6
func TestHistogramsWithoutValuesHaveWideBins(t *testing.T) {
	require.Nil(t, summaryOf(t, integers(0, 1, 1, 2), false).Histogram)
	require.Nil(t, summaryOf(t, integers(7, 7), false).Histogram)
	wide := summaryOf(t, integers(0, 1, 1, 200), false)
	require.NotNil(t, wide.Histogram)
	require.Empty(t, wide.Top)
}

// The histograms of a base have the bins of the table, and count the values of the base.
//
// spec: stats-44
func TestHistogramsWithTheBinsOfOthers(t *testing.T) {
	part := func(column arrow.Array) *stats.Part {
		one := arrow.NewSchema([]arrow.Field{{Name: "x", Type: column.DataType()}}, nil)
		return describe(t, table{schema: one}, stats.Sampling{}, []arrow.RecordBatch{array.NewRecordBatch(one, []arrow.Array{column}, int64(column.Len()))})
	}
	for _, c := range []struct {
		name         string
		table, base  arrow.Array
		edges        []string
		counts       []int64
		below, above int64
	}{
		{"integers", integers(0, 10, 20), integers(-5, 3, 3, 20, 21), []string{"0", "7", "14", "20"}, []int64{2, 0, 1}, 1, 1},
		{"floats", floats(0, 3, 6), floats(-1, math.NaN(), 2, 6, 5, math.Inf(1)), []string{"0", "2", "4", "6"}, []int64{0, 1, 2}, 1, 0},
		{"a table without values", integers(), integers(1, 9), []string{"1", "4", "7", "9"}, []int64{1, 0, 1}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := part(c.table).Summarize(0, "x", true, nil)
			got := part(c.base).Summarize(0, "x", true, of)[0].Histogram
			var edges []string
			for _, e := range got.Edges {
				edges = append(edges, e.String())
			}
			require.Equal(t, c.edges, edges)
			require.Equal(t, c.counts, got.Counts)
			require.Equal(t, []int64{c.below, c.above}, []int64{got.Below, got.Above})
			require.Equal(t, part(c.base).Summarize(0, "x", true, nil)[0].Quantiles, part(c.base).Summarize(0, "x", true, of)[0].Quantiles)
		})
	}
}
