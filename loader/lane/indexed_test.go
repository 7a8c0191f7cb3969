package lane_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
)

// dictionaries is a world of one lane whose batches refer to dictionaries of rows
// {n: 100·number + row, text: "number/row"}, row 0 all null.
type dictionaries struct {
	memory  *memory.CheckedAllocator
	made    []arrow.Array
	ranges  []int64 // rows of the lane's ranges; nil: all in one
	unknown bool    // to the lane
}

var (
	rowType        = arrow.StructOf(arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true})
	dictionaryType = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: rowType}
)

func newDictionaries(t *testing.T, n, rows int) *dictionaries {
	t.Helper()
	s := &dictionaries{memory: memory.NewCheckedAllocator(batch.Default())}
	for k := range n {
		s.made = append(s.made, rowsOf(s.memory, k, rows))
	}
	t.Cleanup(func() {
		for _, a := range s.made {
			a.Release()
		}
		s.memory.AssertSize(t, 0)
	})
	return s
}

// rowsOf returns the rows of a dictionary.
func rowsOf(mem memory.Allocator, number, rows int) arrow.Array {
	b := array.NewStructBuilder(mem, rowType)
	defer b.Release()
	for row := range rows {
		b.Append(true)
		if row == 0 {
			b.FieldBuilder(0).AppendNull()
			b.FieldBuilder(1).AppendNull()
			continue
		}
		b.FieldBuilder(0).(*array.Int64Builder).Append(int64(100*number + row))
		b.FieldBuilder(1).(*array.StringBuilder).Append(fmt.Sprintf("%d/%d", number, row))
	}
	return b.NewArray()
}

// reference is a row of a dictionary.
type reference struct {
	dictionary int
	row        int32
}

// batch returns rows that all refer to one dictionary.
func (s *dictionaries) batch(joined *arrow.Schema, number int, rows []int32) arrow.RecordBatch {
	b := array.NewInt32Builder(s.memory)
	defer b.Release()
	b.AppendValues(rows, nil)
	indices := b.NewArray()
	defer indices.Release()
	indexed := array.NewDictionaryArray(dictionaryType, indices, s.made[number])
	defer indexed.Release()
	return array.NewRecordBatch(joined, []arrow.Array{indexed}, int64(len(rows)))
}

// stream returns batches of up to cut references to one dictionary each.
func (s *dictionaries) stream(references []reference, cut int, fields []int, out *arrow.StructType, q int64) *lane.Reader {
	joined := arrow.NewSchema([]arrow.Field{{Name: "indexed", Type: dictionaryType}}, nil)
	ranges := s.ranges
	if ranges == nil {
		ranges = []int64{int64(len(references))}
	}
	open := func(_ context.Context, _ int, from lane.Position) (lane.Sequence, error) {
		number, at := from.Range, int64(0)
		for _, before := range ranges[:number] {
			at += before
		}
		end := at + ranges[number]
		return lane.AsStored(batch.FromFunc(joined, func() (arrow.RecordBatch, error) {
			if at == end {
				return nil, nil //nolint:nilnil // the end of a stream
			}
			var rows []int32
			for number := references[at].dictionary; at < end && len(rows) < cut && references[at].dictionary == number; at++ {
				rows = append(rows, references[at].row)
			}
			return s.batch(joined, references[at-1].dictionary, rows), nil
		}, func() {})), nil
	}
	shown := slices.Clone(ranges)
	for i := range shown {
		if s.unknown {
			shown[i] = lane.Unknown
		}
	}
	columns := make([]lane.Column, len(fields))
	for i, field := range fields {
		columns[i].Field = field
	}
	indexed := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: out}
	return lane.New(context.Background(), lane.Options{
		Lanes: []lane.Lane{{Ranges: shown}}, Rows: q, Steps: lane.Unknown, Open: open, Memory: s.memory,
		Layout: lane.Layout{Schema: arrow.NewSchema([]arrow.Field{{Name: "features", Type: indexed}}, nil), Indexed: []lane.IndexedColumn{{Index: 0, Columns: columns}}},
	})
}

// texts returns the rows for which an indexed column stands, and the rows of its
// dictionary.
func texts(column arrow.Array) (rows, dictionary []string) {
	indexed := column.(*array.Dictionary)
	of := indexed.Dictionary().(*array.Struct)
	text := func(row int) string {
		var out strings.Builder
		for k := range of.NumField() {
			out.WriteString(of.Field(k).ValueStr(row) + " ")
		}
		return out.String()
	}
	for i := range indexed.Len() {
		rows = append(rows, text(indexed.GetValueIndex(i)))
	}
	for i := range of.Len() {
		dictionary = append(dictionary, text(i))
	}
	return rows, dictionary
}

// TestIndexedColumns: batches hold each staging row to which they refer once, in the order of
// first reference, however references jump between dictionaries, and also if several ranges
// refer to the same dictionary, of which only the needed rows of an ended range were
// copied.
//
// spec: wire-1, wire-2, wire-3
func TestIndexedColumns(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 300 {
		s := newDictionaries(t, 3, 20+random.IntN(2)*200)
		references := make([]reference, 1+random.IntN(60))
		for i := range references {
			references[i] = reference{random.IntN(3), int32(random.IntN(20))}
			if i > 0 && random.IntN(3) > 0 {
				references[i] = references[i-1]
			}
		}
		q := int64(1 + random.IntN(40))
		s.unknown = i%2 == 0
		for left := int64(len(references)); left > 0; left -= s.ranges[len(s.ranges)-1] {
			s.ranges = append(s.ranges, 1+random.Int64N(left))
		}
		r := s.stream(references, 1+random.IntN(9), []int{1, 0}, arrow.StructOf(rowType.Field(1), rowType.Field(0)), q)
		sent := int64(0)
		for r.Next() {
			n := min(len(references), int(q))
			var want, once []string
			for _, at := range references[:n] {
				text := fmt.Sprintf("%d/%d %d ", at.dictionary, at.row, 100*at.dictionary+int(at.row))
				if at.row == 0 {
					text = "(null) (null) "
				}
				want = append(want, text)
				if !slices.Contains(once, text) {
					once = append(once, text)
				}
			}
			rows, dictionary := texts(r.RecordBatch().Column(0))
			require.Equal(t, want, rows, "run %d", i)
			sent += int64(len(dictionary))
			require.Equal(t, []int64{sent}, r.Progress().Distinct)
			require.Equal(t, once, dictionary, "run %d: one row of nulls at most", i)
			require.Zero(t, r.RecordBatch().Column(0).NullN())
			references = references[n:]
		}
		require.NoError(t, r.Err())
		require.Empty(t, references)
		r.Release()
	}
}

// TestIndexedColumnsOfManyRows fills the hash table of rows.
func TestIndexedColumnsOfManyRows(t *testing.T) {
	t.Parallel()
	const rows = 5000
	s := newDictionaries(t, 1, rows)
	references := make([]reference, 0, 2*rows)
	for i := range rows {
		references = append(references, reference{0, int32(i)}, reference{0, int32(i * 7 % rows)})
	}
	r := s.stream(references, 333, []int{0}, arrow.StructOf(rowType.Field(0)), 2*rows)
	defer r.Release()
	require.True(t, r.Next())
	require.Equal(t, []int64{rows}, r.Progress().Distinct)
	got, _ := texts(r.RecordBatch().Column(0))
	for i, at := range references {
		want := fmt.Sprintf("%d ", at.row)
		if at.row == 0 {
			want = "(null) "
		}
		require.Equal(t, want, got[i])
	}
}

// TestIndexedColumnsHoldRequiredColumns: a null to which no row refers is allowed; any other
// ends the stream.
//
// spec: wire-2
func TestIndexedColumnsHoldRequiredColumns(t *testing.T) {
	t.Parallel()
	required := arrow.StructOf(arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64})
	s := newDictionaries(t, 1, 5)
	r := s.stream([]reference{{0, 3}, {0, 1}, {0, 3}}, 9, []int{0}, required, 9)
	require.True(t, r.Next())
	rows, _ := texts(r.RecordBatch().Column(0))
	require.Equal(t, []string{"3 ", "1 ", "3 "}, rows)
	r.Release()
	r = s.stream([]reference{{0, 3}, {0, 0}}, 9, []int{0}, required, 9)
	defer r.Release()
	require.False(t, r.Next())
	require.Equal(t, fault.Corrupt, fault.KindOf(r.Err()))
	require.ErrorContains(t, r.Err(), `column "n" is required and has 1 nulls`)
}
