package shuffle

import (
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// world is a range of joined rows with known values, ordinals and priorities.
type world struct {
	memory *memory.CheckedAllocator
	schema *arrow.Schema
	shared bool  // all batches have one dictionary
	offset int64 // of the ordinals that it has
	one    arrow.Array
}

var dictionary = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(arrow.Field{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true})}

// priorityOf spreads ordinals.
func priorityOf(ordinal int64) uint64 { return draw(5, ordinal) }

// batch has the rows of some ordinals: value 10·ordinal, and 100·ordinal by reference.
func (w *world) batch(ordinals []int64) arrow.RecordBatch {
	fields := w.schema.Fields()
	b := array.NewRecordBuilder(w.memory, arrow.NewSchema(append(fields[:3:3], fields[4:]...), nil))
	defer b.Release()
	references := array.NewInt32Builder(w.memory)
	defer references.Release()
	own := array.NewInt64Builder(w.memory)
	defer own.Release()
	own.AppendNull() // row 0, for rows without a match
	for i, o := range ordinals {
		b.Field(0).(*array.Int64Builder).Append(10 * o)
		b.Field(1).(*array.Int64Builder).Append(o)
		b.Field(2).(*array.Uint64Builder).Append(priorityOf(o))
		if small := b.Field(3).(*array.Int16Builder); o%3 == 0 {
			small.AppendNull()
		} else {
			small.Append(int16(o))
		}
		if text := b.Field(4).(*array.StringBuilder); o%7 == 0 {
			text.AppendNull()
		} else {
			text.Append(strconv.FormatInt(o, 10))
		}
		own.Append(100 * o)
		switch {
		case o%5 == 0:
			references.Append(0)
		case w.shared:
			references.Append(int32(o - w.offset + 1))
		default:
			references.Append(int32(i + 1))
		}
	}
	of := own.NewArray()
	defer of.Release()
	values, _ := array.NewStructArray([]arrow.Array{of}, []string{"v"})
	defer values.Release()
	indices := references.NewArray()
	defer indices.Release()
	var referred arrow.Array = values
	if w.shared {
		referred = w.one
	}
	d := array.NewDictionaryArray(dictionary, indices, referred)
	defer d.Release()
	rows := b.NewRecordBatch()
	defer rows.Release()
	return array.NewRecordBatch(w.schema, slices.Insert(slices.Clone(rows.Columns()), 3, arrow.Array(d)), int64(len(ordinals)))
}

// requireColumns checks the columns of a batch against its first one.
func requireColumns(t *testing.T, b arrow.RecordBatch) {
	t.Helper()
	references, small, text := b.Column(3).(*array.Dictionary), b.Column(4).(*array.Int16), b.Column(5).(*array.String)
	values := references.Dictionary().(*array.Struct).Field(0).(*array.Int64)
	for i, value := range b.Column(0).(*array.Int64).Int64Values() {
		o := value / 10
		require.Equal(t, o%5 != 0, values.IsValid(references.GetValueIndex(i)))
		require.Equal(t, o%3 != 0, small.IsValid(i))
		require.Equal(t, o%7 != 0, text.IsValid(i))
		if o%5 != 0 {
			require.Equal(t, 100*o, values.Value(references.GetValueIndex(i)))
		}
		if o%3 != 0 {
			require.Equal(t, int16(o), small.Value(i))
		}
		if o%7 != 0 {
			require.Equal(t, strconv.FormatInt(o, 10), text.Value(i))
		}
	}
}

func newWorld(t *testing.T, shared bool) *world {
	t.Helper()
	w := &world{memory: memory.NewCheckedAllocator(batch.Default()), shared: shared}
	w.schema = arrow.NewSchema([]arrow.Field{
		{Name: "value", Type: arrow.PrimitiveTypes.Int64},
		{Name: "ordinal", Type: arrow.PrimitiveTypes.Int64},
		{Name: priorityName, Type: arrow.PrimitiveTypes.Uint64},
		{Name: "staging", Type: dictionary},
		{Name: "small", Type: arrow.PrimitiveTypes.Int16, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewInt64Builder(w.memory)
	defer b.Release()
	b.AppendNull()
	for i := range int64(1000) {
		b.Append(100 * i)
	}
	values := b.NewArray()
	defer values.Release()
	one, err := array.NewStructArray([]arrow.Array{values}, []string{"v"})
	require.NoError(t, err)
	w.one = one
	t.Cleanup(func() {
		w.one.Release()
		w.memory.AssertSize(t, 0)
	})
	return w
}

// blocks are windows of rows that are stored one after the other.
type blocks struct{ first, rows int64 }

func (b blocks) of(ordinal int64) int64 { return (ordinal - b.first) / b.rows }

// part is a part of a run whose windows are blocks.
type part struct {
	array.RecordReader
	blocks
}

func (p part) Window() int64 { return p.of(p.Place().Row) }

func (p part) Place() StoredPlace {
	return StoredPlace{Row: p.RecordBatch().Column(1).(*array.Int64).Value(0)}
}

// part returns the remaining rows of a part, in batches of up to cut rows, none of which has rows of two windows.
func (w *world) part(left []int64, cut int, in blocks) part {
	rest := left
	return part{batch.FromFunc(w.schema, func() (arrow.RecordBatch, error) {
		var of []int64
		for len(rest) > 0 && len(of) < cut && (len(of) == 0 || in.of(rest[0]) == in.of(of[0]) && rest[0] > of[0]) {
			of, rest = append(of, rest[0]), rest[1:]
		}
		if of == nil {
			return nil, nil //nolint:nilnil // the end
		}
		return w.batch(of), nil
	}, nil), in}
}

// read is what a test reads.
type read struct {
	*Windows
	blocks
}

// windows reads the remaining rows of a run of one part.
func (w *world) windows(t *testing.T, of part, o Options, joined JoinedColumns) read {
	t.Helper()
	joined.Ordinal, joined.Priority, joined.BatchRows = 1, 2, 30
	windows, err := NewWindows(t.Context(), []PartRows{of}, joined, o)
	require.NoError(t, err)
	return read{windows, of.blocks}
}

// given reads all windows, and returns the ordinals in their order.
func given(t *testing.T, w read, check func(b arrow.RecordBatch)) []int64 {
	t.Helper()
	out := []int64{}
	for w.Next() {
		b := w.RecordBatch()
		values := b.Column(0).(*array.Int64)
		d := b.Column(3).(*array.Dictionary)
		referred := d.Dictionary().(*array.Struct).Field(0).(*array.Int64)
		require.LessOrEqual(t, int(b.NumRows()), w.joined.BatchRows)
		for row := range int(b.NumRows()) {
			ordinal := values.Value(row) / 10
			reference := d.GetValueIndex(row)
			require.Equal(t, ordinal%5 == 0, reference == 0)
			require.Equal(t, ordinal%5 == 0, referred.IsNull(reference))
			if reference > 0 {
				require.Equal(t, 100*ordinal, referred.Value(reference))
			}
			require.Equal(t, w.of(ordinal), w.Window())
			out = append(out, ordinal)
		}
		check(b)
	}
	return out
}

func isNil(a arrow.Array) bool { return a == nil }
