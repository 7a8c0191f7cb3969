package lane_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
)

// visits are rows of a training table: a request's key, null for an empty one, and a column that
// is constant within a request. Each batch of a range refers to its own rows.
type visits struct {
	keys, values []string
	cut          int // rows of a batch of a range
	keep         int // one of this many rows reaches the lane
	ranges       int // that divide the rows evenly
	unknown      bool
	made         arrow.RecordBatch // the one batch of the one range; nil: it is built
}

var visitType = arrow.StructOf(arrow.Field{Name: "user", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "request_id", Type: arrow.BinaryTypes.String, Nullable: true})

// batch returns rows [from, to), of which those that are kept refer to them.
func (v visits) batch(mem memory.Allocator, from, to int) arrow.RecordBatch {
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: visitType}
	rows, at := array.NewStructBuilder(mem, visitType), array.NewInt32Builder(mem)
	for i := from; i < to; i++ {
		rows.Append(true)
		rows.FieldBuilder(0).(*array.StringBuilder).Append(v.values[i])
		if v.keys[i] == "" {
			rows.FieldBuilder(1).AppendNull()
		} else {
			rows.FieldBuilder(1).(*array.StringBuilder).Append(v.keys[i])
		}
		if i%v.keep == 0 {
			at.Append(int32(i - from))
		}
	}
	defer rows.Release()
	defer at.Release()
	own, references := rows.NewArray(), at.NewArray()
	defer own.Release()
	defer references.Release()
	column := array.NewDictionaryArray(dt, references, own)
	defer column.Release()
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "request", Type: dt}}, nil), []arrow.Array{column}, int64(references.Len()))
}

func (v visits) stream(mem memory.Allocator, b *budget.Budget, q int64) *lane.Reader {
	part := len(v.keys) / v.ranges
	of := lane.Lane{}
	for range v.ranges {
		of.Ranges = append(of.Ranges, int64((part+v.keep-1)/v.keep))
		if v.unknown {
			of.Ranges[0], of.Ranges[len(of.Ranges)-1] = lane.Unknown, lane.Unknown
		}
	}
	open := func(_ context.Context, _ int, from lane.Position) (lane.Sequence, error) {
		at, end := part*from.Range, part*(from.Range+1)
		return lane.AsStored(batch.FromFunc(nil, func() (arrow.RecordBatch, error) {
			if at == end {
				return nil, nil //nolint:nilnil // the end of a stream
			}
			from := at
			at = min(end, at+v.cut)
			if v.made != nil {
				v.made.Retain()
				return v.made, nil
			}
			return v.batch(mem, from, at), nil
		}, nil)), nil
	}
	out := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(visitType.Field(0))}
	return lane.New(context.Background(), lane.Options{
		Lanes: []lane.Lane{of}, Rows: q, Steps: lane.Unknown, Open: open, Memory: mem, Budget: b,
		Requests: &lane.Requests{Key: []int{1}, Table: "ml.visits"},
		Layout:   lane.Layout{Schema: arrow.NewSchema([]arrow.Field{{Name: "request", Type: out}}, nil), Indexed: []lane.IndexedColumn{{Columns: []lane.Column{{Field: 0}}}}},
	})
}

// TestRequestsAreSentOnce: however a request's rows are spread over batches and ranges, a batch
// has it once; rows without a key have one each.
//
// spec: wire-16, wire-17
func TestRequestsAreSentOnce(t *testing.T) {
	t.Parallel()
	v := visits{ranges: 3, keep: 1}
	for i := range 90 {
		key := strconv.Itoa(i / 4 % 5)
		v.keys, v.values = append(v.keys, key), append(v.values, "of "+key)
		if i%7 == 0 {
			v.keys[i] = ""
		}
	}
	for _, v.unknown = range []bool{false, true} {
		for _, v.cut = range []int{1, 4, 7, 90} {
			for _, q := range []int{1, 10, 45, 90} {
				mem := memory.NewCheckedAllocator(batch.Default())
				r := v.stream(mem, nil, int64(q))
				sent, at := int64(0), 0
				for r.Next() {
					rows, dictionary := texts(r.RecordBatch().Column(0))
					var want, once []string
					for i := at; i < min(at+q, 90); i++ {
						want = append(want, v.values[i]+" ")
						if v.keys[i] == "" || !slices.Contains(once, v.keys[i]) {
							once = append(once, v.keys[i])
						}
					}
					require.Equal(t, want, rows)
					require.Len(t, dictionary, len(once), "batches of %d of %d", q, v.cut)
					sent += int64(len(once))
					at += q
					require.Equal(t, []int64{sent}, r.Progress().Distinct)
				}
				require.NoError(t, r.Err())
				require.GreaterOrEqual(t, at, 90)
				r.Release()
				mem.AssertSize(t, 0)
			}
		}
	}
}

// TestRequestsThatDiffer: a value that differs from the first of its request ends the stream,
// wherever it is, unless no batch has both.
//
// spec: wire-19
func TestRequestsThatDiffer(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{1, 7, 40} {
		for wrong := range 40 {
			v := visits{ranges: 2, keep: 1, cut: cut}
			for i := range 40 {
				v.keys, v.values = append(v.keys, strconv.Itoa(i%5)), append(v.values, "same")
			}
			v.values[wrong] = "other"
			r := v.stream(memory.DefaultAllocator, nil, 40)
			require.False(t, r.Next())
			require.Equal(t, fault.Invalid, fault.KindOf(r.Err()))
			require.ErrorContains(t, r.Err(), fmt.Sprintf("column user of table ml.visits is declared request_level, but the rows of request request_id = %d have different values", wrong%5))
			require.Contains(t, fault.As(r.Err()).Remedy, "remove user from training.request_level")
			require.Equal(t, "ml.visits", fault.As(r.Err()).Table)
			r.Release()
			r = v.stream(memory.DefaultAllocator, nil, 5)
			for r.Next() {
				require.Equal(t, int64(5), r.RecordBatch().NumRows())
			}
			require.NoError(t, r.Err(), "every batch has one row of each request")
			r.Release()
		}
	}
}

// TestRowsOfRequestsAreReserved: if few rows of a batch reach the lane, they are copied, and all
// that is kept is reserved.
//
// spec: wire-9
func TestRowsOfRequestsAreReserved(t *testing.T) {
	t.Parallel()
	const rows = 4000
	peaks := map[int]int64{}
	for _, keep := range []int{1, 100} {
		v := visits{ranges: 2, keep: keep, cut: 500, unknown: true}
		for i := range rows {
			v.keys, v.values = append(v.keys, strconv.Itoa(i/10)), append(v.values, fmt.Sprintf("%0200d", i/10))
		}
		mem := memory.NewCheckedAllocator(batch.Default())
		b := budget.New(1 << 24)
		r := v.stream(mem, b, rows)
		require.True(t, r.Next())
		require.Equal(t, int64(rows/keep), r.RecordBatch().NumRows())
		peaks[keep] = b.Peak()
		require.False(t, r.Next())
		require.NoError(t, r.Err())
		r.Release()
		require.Zero(t, b.Used())
		mem.AssertSize(t, 0)
	}
	require.Greater(t, peaks[1], int64(rows*200), "the batches that the rows are from are kept")
	require.Less(t, peaks[100], int64(rows*200/10), "the batches that most rows were dropped of are not")
}
