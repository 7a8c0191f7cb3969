package stats

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// firstColumn is the position of the first column among the fields of a PartType, after the state and the number of the row.
const firstColumn = 2

// PartType returns the type of the arrays of a part, which does not depend on the names of the columns: a state, the number of
// a row in its file, and the row's values.
func PartType(columns []arrow.Field) arrow.DataType {
	fields := []arrow.Field{
		{Name: "state", Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: "number", Type: arrow.PrimitiveTypes.Int64},
	}
	for i, f := range columns {
		fields = append(fields, arrow.Field{Name: strconv.Itoa(i), Type: f.Type, Nullable: true})
	}
	return arrow.StructOf(fields...)
}

// Arrays returns a part of one file that was not merged as arrays of the PartType of its columns. The first array has one row
// with the state, and the other arrays have the rows of the sample, whose values they share with the part. The caller releases
// the arrays.
func (p *Part) Arrays(columns []arrow.Field) (out []arrow.Array, err error) {
	defer func() {
		if err != nil {
			batch.ReleaseAll(out...)
			out = nil
		}
	}()
	state := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	defer state.Release()
	state.Append(p.State())
	none := make([]arrow.Array, len(columns))
	defer func() { batch.ReleaseAll(none...) }()
	for i, f := range columns {
		none[i] = batch.Nulls(f.Type, 1, memory.DefaultAllocator)
	}
	first, err := partRows(columns, state.NewArray(), []int64{0}, none)
	if err != nil {
		return nil, err
	}
	out = append(out, first)
	for i, b := range p.sample {
		noState := batch.Nulls(arrow.BinaryTypes.Binary, int(b.NumRows()), memory.DefaultAllocator)
		rows, err := partRows(columns, noState, p.numbers[i], b.Columns())
		if err != nil {
			return out, err
		}
		out = append(out, rows)
	}
	return out, nil
}

// partRows returns an array of a PartType. It releases the states, and borrows the values.
func partRows(columns []arrow.Field, states arrow.Array, numbers []int64, values []arrow.Array) (arrow.Array, error) {
	defer states.Release()
	number := array.NewData(arrow.PrimitiveTypes.Int64, len(numbers),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(numbers))}, nil, 0, 0)
	defer number.Release()
	fields := []arrow.ArrayData{states.Data(), number}
	for i, c := range values {
		if !arrow.TypeEqual(c.DataType(), columns[i].Type) {
			return nil, fault.New(fault.Internal, "the sample of column %s has type %s instead of %s", columns[i].Name, c.DataType(), columns[i].Type)
		}
		fields = append(fields, c.Data())
	}
	data := array.NewData(PartType(columns), len(numbers), []*memory.Buffer{nil}, fields, 0, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// ReadPart returns the part whose state is in the first array of Arrays, without its sample; see ReadState.
func ReadPart(columns []arrow.Field, first arrow.Array) (*Part, error) {
	of, ok := first.(*array.Struct)
	if !ok || of.Len() != 1 || of.NumField() != firstColumn+len(columns) {
		return nil, fault.New(fault.Corrupt, "read kept statistics: the state is missing")
	}
	state, ok := of.Field(0).(*array.Binary)
	if !ok || state.IsNull(0) {
		return nil, fault.New(fault.Corrupt, "read kept statistics: the state is missing")
	}
	return ReadState(columns, state.Value(0))
}

// SampleRows returns the values and the numbers of the rows of another array of Arrays. The caller releases the batch; the
// numbers share its memory.
func SampleRows(columns []arrow.Field, rows arrow.Array) (arrow.RecordBatch, []int64, error) {
	of, ok := rows.(*array.Struct)
	if !ok || of.NumField() != firstColumn+len(columns) {
		return nil, nil, fault.New(fault.Internal, "rows of a sample are %s", rows.DataType())
	}
	numbers, ok := of.Field(1).(*array.Int64)
	if !ok {
		return nil, nil, fault.New(fault.Internal, "the numbers of rows are %s", of.Field(1).DataType())
	}
	values := make([]arrow.Array, len(columns))
	for i := range columns {
		values[i] = of.Field(firstColumn + i)
	}
	return array.NewRecordBatch(arrow.NewSchema(columns, nil), values, int64(of.Len())), numbers.Int64Values(), nil
}

// Resample begins the sample of a part from ReadState anew, at a level that is not lower than that of the part. It reports
// whether the level is not lower.
func (p *Part) Resample(level int) bool {
	if level < p.sampling.Level {
		return false
	}
	p.sampling.Level, p.Sampled = level, 0
	return true
}
