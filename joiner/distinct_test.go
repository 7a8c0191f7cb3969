package joiner_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// repeatedRows returns batches of rows with a nullable number, a nullable text and a
// nullable order, and the same as values: -1 and "-" are null.
func repeatedRows(r *rand.Rand, rows int) (*arrow.Schema, []arrow.RecordBatch, [][3]any) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "order", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	var batches []arrow.RecordBatch
	var values [][3]any
	for len(values) < rows {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for range 1 + r.IntN(40) {
			row := [3]any{}
			if n := r.IntN(6); n > 0 {
				b.Field(0).(*array.Int32Builder).Append(int32(n))
				row[0] = n
			} else {
				b.Field(0).AppendNull()
			}
			if n := r.IntN(4); n > 0 {
				b.Field(1).(*array.StringBuilder).Append([]string{"", "a", "ab"}[n-1])
				row[1] = []string{"", "a", "ab"}[n-1]
			} else {
				b.Field(1).AppendNull()
			}
			if n := r.IntN(4); n > 0 {
				b.Field(2).(*array.Int64Builder).Append(int64(n))
				row[2] = n
			} else {
				b.Field(2).AppendNull()
			}
			values = append(values, row)
		}
		batches = append(batches, b.NewRecordBatch())
	}
	return schema, batches, values
}

// orderedBefore reports whether row i comes before row j: by the order column with nulls
// last, then by arrival.
func orderedBefore(values [][3]any, i, j int, descending bool) bool {
	a, b := values[i][2], values[j][2]
	switch {
	case a == b:
		return i < j
	case a == nil || b == nil:
		return b == nil
	default:
		return (a.(int) < b.(int)) != descending
	}
}

// TestDistinct compares with a search of all pairs, whatever fits in memory.
//
// spec: join-60, join-61
func TestDistinct(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		schema, batches, values := repeatedRows(r, 1+r.IntN(600))
		last, ordered, descending := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
		var order []joiner.Order
		if ordered {
			order = []joiner.Order{{Column: 2, Descending: descending}}
		}
		opened := 0
		in := joiner.Input{Key: []int{0, 1}, Open: func(context.Context) (array.RecordReader, error) {
			opened++
			return array.NewRecordReader(schema, batches)
		}}
		limited := budget.New(int64(1 << 20 >> (r.IntN(2) * 6)))
		kept, err := joiner.Distinct(context.Background(), in, order, last, joiner.Options{Budget: limited})
		require.NoError(t, err)
		require.Equal(t, int64(len(values)), kept.Rows())
		var stay []int64
		for i := range values {
			want := true
			for j := range values {
				if i == j || values[i][0] != values[j][0] || values[i][1] != values[j][1] {
					continue
				}
				before := j < i
				if ordered {
					before = orderedBefore(values, j, i, descending)
				}
				want = want && before == last
			}
			require.Equal(t, want, kept.Has(int64(i)), "seed %d, row %d", seed, i)
			if want {
				stay = append(stay, int64(i))
			}
		}
		for n, row := range stay {
			require.Equal(t, row, kept.At(int64(n)))
		}
		require.Equal(t, int64(-1), kept.At(int64(len(stay))))
		require.Equal(t, int64((len(values)+7)/8), limited.Used(), "only the answer is held")
		kept.Release()
		require.Zero(t, limited.Used())
		for _, b := range batches {
			b.Release()
		}
		if limited.Limit() < 1<<20 && len(values) > 500 {
			require.Greater(t, opened, 1, "%d rows", len(values))
		}
	}
}

// spec: join-61
func TestDistinctFailsIfItNeverFits(t *testing.T) {
	t.Parallel()
	schema, batches, _ := repeatedRows(rand.New(rand.NewPCG(1, 1)), 500)
	in := joiner.Input{Key: []int{0}, Open: func(context.Context) (array.RecordReader, error) {
		return array.NewRecordReader(schema, batches)
	}}
	b := budget.New(512)
	_, err := joiner.Distinct(context.Background(), in, nil, false, joiner.Options{Budget: b})
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.Zero(t, b.Used())
	for _, batch := range batches {
		batch.Release()
	}
}

// atEnd is a reader that calls ended after its last batch.
type atEnd struct {
	array.RecordReader
	ended func()
}

// Next implements array.RecordReader.
func (r atEnd) Next() bool {
	more := r.RecordReader.Next()
	if !more {
		r.ended()
	}
	return more
}

// TestPassesReserveTheNumbersOfTheirRows reads rows with distinct keys in several passes. At the end of each pass, the budget has the
// keys of its rows with their offsets, and the numbers of these rows in the stream.
//
// spec: join-61
func TestPassesReserveTheNumbersOfTheirRows(t *testing.T) {
	t.Parallel()
	const rows, keyBytes, offsetBytes, numberBytes = 40_000, 1 + 4, 8, 8
	b := array.NewInt32Builder(memory.DefaultAllocator)
	for i := range int32(rows) {
		b.Append(i)
	}
	keys := b.NewInt32Array()
	whole := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}}, nil), []arrow.Array{keys}, rows)
	limited, held := budget.New(1<<20), []int64{}
	in := joiner.Input{Key: []int{0}, Open: func(context.Context) (array.RecordReader, error) {
		r, err := array.NewRecordReader(whole.Schema(), []arrow.RecordBatch{whole})
		return atEnd{r, func() { held = append(held, limited.Used()) }}, err
	}}
	kept, err := joiner.Distinct(t.Context(), in, nil, false, joiner.Options{Budget: limited})
	require.NoError(t, err)
	require.Len(t, held, 3, "one pass, which does not fit, and two passes")
	require.GreaterOrEqual(t, held[1]+held[2]-2*kept.Rows()/8, int64(rows*(keyBytes+offsetBytes+numberBytes)))
	kept.Release()
	whole.Release()
}
