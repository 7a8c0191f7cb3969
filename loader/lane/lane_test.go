package lane_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
)

// ranges is a world of lanes whose rows are numbered 1000·lane + position, with a dictionary
// column whose rows are the same numbers times 10.
type ranges struct {
	rows   map[int][]int64 // per lane, rows of each range
	cut    int             // rows per batch of a range
	window int64           // > 0: no batch has rows of two windows of this size
	memory *memory.CheckedAllocator
	opened []string
	closed int
	fail   string // the range that fails before its end
	sizes  []sizes
}

// sizes are the bytes of a range's batch in memory, without its dictionary and with it.
type sizes struct{ rows, dictionary int64 }

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "row", Type: arrow.PrimitiveTypes.Int64},
	{Name: "feature", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
}, nil)

// equalWindows are windows of equal size.
type equalWindows int64

func (w equalWindows) RowsBefore(window int64) int64 { return window * int64(w) }

func (w equalWindows) WindowAt(row int64) int64 { return row / int64(w) }

// windowsOf returns the windows of the ranges of a lane.
func (p *ranges) windowsOf(number int) []lane.WindowSizes {
	if p.window == 0 {
		return nil
	}
	of := make([]lane.WindowSizes, len(p.rows[number]))
	for i := range of {
		of[i] = equalWindows(p.window)
	}
	return of
}

// windows is a range in windows.
type windows struct {
	array.RecordReader
	number int64
}

func (w *windows) Window() int64 { return w.number }

func (p *ranges) open(_ context.Context, number int, from lane.Position) (lane.Sequence, error) {
	r, skip, out := from.Range, from.Window*p.window+from.Row, &windows{}
	p.opened = append(p.opened, fmt.Sprintf("%d.%d+%d", number, r, skip))
	at, rows := int64(1000*number), p.rows[number][r]
	for _, before := range p.rows[number][:r] {
		at += before
	}
	given := skip
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(schema.Field(1))}
	joined := arrow.NewSchema([]arrow.Field{schema.Field(0), {Name: "staging", Type: dt}}, nil)
	out.RecordReader = batch.FromFunc(joined, func() (arrow.RecordBatch, error) {
		if p.fail == fmt.Sprintf("%d.%d", number, r) && given > 0 {
			return nil, fault.New(fault.Corrupt, "broken")
		}
		n := min(rows-given, int64(p.cut))
		if p.window > 0 && n > 0 {
			out.number = given / p.window
			n = min(n, (out.number+1)*p.window-given)
		}
		if n <= 0 {
			return nil, nil //nolint:nilnil // the end of a stream
		}
		b := p.batch(joined, at+given, n)
		given += n
		p.sizes = append(p.sizes, sizes{
			rows: batch.Retained{}.Add(b.Columns()), dictionary: batch.Retained{}.Add([]arrow.Array{b.Column(1).(*array.Dictionary).Dictionary()}),
		})
		return b, nil
	}, func() { p.closed++ })
	return out, nil
}

func (p *ranges) batch(joined *arrow.Schema, from, n int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(p.memory, schema)
	defer b.Release()
	indices := array.NewInt32Builder(p.memory)
	defer indices.Release()
	b.Field(1).AppendNull()
	b.Field(0).AppendNull()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(from + i)
		b.Field(1).(*array.Int64Builder).Append((from + i) * 10)
		index := int32(i + 1)
		if (from+i)%3 == 0 {
			index = 0
		}
		indices.Append(index)
	}
	numbers := b.NewRecordBatch()
	defer numbers.Release()
	rows := array.NewSlice(numbers.Column(0), 1, n+1)
	defer rows.Release()
	features, _ := array.NewStructArray([]arrow.Array{numbers.Column(1)}, []string{"feature"})
	defer features.Release()
	references := indices.NewArray()
	defer references.Release()
	staging := array.NewDictionaryArray(joined.Field(1).Type, references, features)
	defer staging.Release()
	return array.NewRecordBatch(joined, []arrow.Array{rows, staging}, n)
}

func (p *ranges) reader(q, steps int64, known bool, lanes ...lane.Lane) *lane.Reader {
	for i := range lanes {
		lanes[i].Ranges, lanes[i].Windows = nil, p.windowsOf(lanes[i].Number)
		for _, n := range p.rows[lanes[i].Number] {
			if !known {
				n = lane.Unknown
			}
			lanes[i].Ranges = append(lanes[i].Ranges, n)
		}
	}
	return lane.New(context.Background(), lane.Options{
		Lanes: lanes, Rows: q, Steps: steps, Open: p.open,
		Layout: lane.Layout{Schema: schema, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
	})
}

// drain reads to the end and returns the rows of each batch, after checking their features.
func drain(t *testing.T, r *lane.Reader) ([][]int64, [][]lane.Position) {
	t.Helper()
	defer r.Release()
	var batches [][]int64
	var positions [][]lane.Position
	for r.Next() {
		rows := r.RecordBatch().Column(0).(*array.Int64)
		features := r.RecordBatch().Column(1).(*array.Int64)
		batches = append(batches, append([]int64{}, rows.Int64Values()...))
		positions = append(positions, r.Progress().At)
		for i, row := range rows.Int64Values() {
			require.Equal(t, row%3 == 0, features.IsNull(i))
			if row%3 != 0 {
				require.Equal(t, row*10, features.Value(i))
			}
		}
	}
	require.NoError(t, r.Err())
	return batches, positions
}

func world(t *testing.T, rows map[int][]int64) *ranges {
	t.Helper()
	p := &ranges{rows: rows, cut: 4, memory: memory.NewCheckedAllocator(batch.Default())}
	t.Cleanup(func() {
		p.memory.AssertSize(t, 0)
		require.Equal(t, len(p.opened), p.closed, "every range that was opened is released")
	})
	return p
}

// spec: order-12, order-15
func TestCutsExactly(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		p := world(t, map[int][]int64{1: {3, 2}, 3: {8}})
		got, at := drain(t, p.reader(3, lane.Unknown, known, lane.Lane{Number: 1}, lane.Lane{Number: 3}))
		require.Equal(t, [][]int64{{1000, 1001, 1002, 3000, 3001, 3002}, {1003, 1004, 3003, 3004, 3005}, {3006, 3007}}, got)
		require.Equal(t, []lane.Position{{Range: 1}, {Row: 3}}, at[0], "a lane is at the start of its next range")
		require.Equal(t, []lane.Position{{Range: 2}, {Row: 6}}, at[1])
		require.Equal(t, []lane.Position{{Range: 2}, {Range: 1}}, at[2], "a finished lane is after its ranges")
	}
}

// spec: order-16
func TestEndsAfterSteps(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{0: {9}, 1: {7}})
	got, _ := drain(t, p.reader(3, 2, true, lane.Lane{Number: 0}, lane.Lane{Number: 1}))
	require.Equal(t, [][]int64{{0, 1, 2, 1000, 1001, 1002}, {3, 4, 5, 1003, 1004, 1005}}, got)
}

func TestStartsInTheMiddle(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{0: {5, 6}})
	got, _ := drain(t, p.reader(4, lane.Unknown, true, lane.Lane{Number: 0, Start: lane.Position{Range: 1, Row: 2}}))
	require.Equal(t, [][]int64{{7, 8, 9, 10}}, got)
	require.Equal(t, []string{"0.1+2"}, p.opened)
	got, _ = drain(t, p.reader(4, lane.Unknown, true, lane.Lane{Number: 0, Start: lane.Position{Range: 0, Row: 5}}))
	require.Equal(t, [][]int64{{5, 6, 7, 8}, {9, 10}}, got)
	require.Equal(t, []string{"0.1+2", "0.1+0"}, p.opened, "a range that was given whole is not opened")
}

func TestNothingStartsBeforeNext(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{0: {5}})
	r := p.reader(4, lane.Unknown, true, lane.Lane{Number: 0})
	require.Empty(t, p.opened)
	r.Release()
}

func TestEarlyReleaseAndErrors(t *testing.T) {
	t.Parallel()
	for batches := range 4 {
		p := world(t, map[int][]int64{0: {5, 5}, 1: {10}})
		r := p.reader(3, lane.Unknown, true, lane.Lane{Number: 0}, lane.Lane{Number: 1})
		for range batches {
			require.True(t, r.Next())
		}
		r.Release()
	}
	p := world(t, map[int][]int64{0: {5, 5}, 1: {10}})
	p.fail = "0.1"
	r := p.reader(5, lane.Unknown, true, lane.Lane{Number: 0}, lane.Lane{Number: 1})
	defer r.Release()
	require.True(t, r.Next())
	require.False(t, r.Next())
	require.Equal(t, fault.Corrupt, fault.KindOf(r.Err()))
	require.ErrorContains(t, r.Err(), "read range 1 of lane 0: broken")
}

// TestShortRanges: a range whose rows differ from those planned fails.
func TestShortRanges(t *testing.T) {
	t.Parallel()
	for _, planned := range []int64{4, 6} {
		p := world(t, map[int][]int64{0: {5}})
		r := lane.New(context.Background(), lane.Options{
			Lanes: []lane.Lane{{Ranges: []int64{planned}}}, Rows: 2, Steps: lane.Unknown, Open: p.open,
			Layout: lane.Layout{Schema: schema, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
		})
		p.cut = 5
		for r.Next() {
		}
		require.Equal(t, fault.Corrupt, fault.KindOf(r.Err()), "planned %d", planned)
		r.Release()
	}
}

func TestRequiredColumns(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{0: {5}})
	required := arrow.NewSchema([]arrow.Field{schema.Field(0), {Name: "feature", Type: arrow.PrimitiveTypes.Int64}}, nil)
	r := lane.New(context.Background(), lane.Options{
		Lanes: []lane.Lane{{Ranges: []int64{5}}}, Rows: 5, Steps: lane.Unknown, Open: p.open,
		Layout: lane.Layout{Schema: required, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
	})
	defer r.Release()
	require.False(t, r.Next())
	require.ErrorContains(t, r.Err(), `column "feature" is required and has 2 nulls`)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{0: {50}})
	ctx, cancel := context.WithCancel(context.Background())
	r := lane.New(ctx, lane.Options{
		Lanes: []lane.Lane{{Ranges: []int64{50}}}, Rows: 2, Steps: lane.Unknown, Open: p.open,
		Layout: lane.Layout{Schema: schema, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
	})
	defer r.Release()
	require.True(t, r.Next())
	cancel()
	for r.Next() {
	}
	require.ErrorIs(t, r.Err(), context.Canceled)
}
