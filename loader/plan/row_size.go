package plan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// MinRowBits returns the minimum size of a row in bits: the values of fixed-width columns, and the
// offsets of other columns.
func MinRowBits(wire dataset.Wire, outputs []resolve.Output) int64 {
	bits, tables := int64(0), map[int]bool{}
	indexed, _ := wire.Indexed() // making the schema refuses an invalid wire
	for _, o := range outputs {
		switch {
		case indexed && o.Request:
			tables[resolve.RequestTable] = true
		case indexed && !o.OfTraining():
			tables[o.Table] = true
		default:
			bits += widthBits(o.Type())
		}
	}
	if wire.Auto() { // auto does not index a table whose values take less space than indices
		return bits
	}
	return bits + int64(len(tables)*arrow.Int32SizeBytes*8)
}

// widthBits returns the minimum size, in bits, of a value of a type.
func widthBits(dt arrow.DataType) int64 {
	switch dt := dt.(type) {
	case *arrow.NullType:
		return 0
	case *arrow.StructType:
		bits := int64(0)
		for _, f := range dt.Fields() {
			bits += widthBits(f.Type)
		}
		return bits
	case *arrow.FixedSizeListType:
		return int64(dt.Len()) * widthBits(dt.Elem())
	case arrow.OffsetsDataType:
		return int64(dt.OffsetTypeTraits().BytesRequired(1)) * 8
	case arrow.FixedWidthDataType:
		return int64(dt.BitWidth())
	default:
		return 0
	}
}

// unpacked is roughly the ratio of the size of values in memory to their size in files.
const unpacked = 4

// ExpectedBytes estimates the size of a row in memory, from the sizes of the plan's files and the
// share of the output columns in these sizes. It is used only to choose defaults.
func (p *Plan) ExpectedBytes(outputs []resolve.Output) int64 {
	asked := map[int]int64{}
	least := int64(0)
	for _, o := range resolve.Leaves(outputs) {
		table := o.Table
		if o.Promoted {
			table = resolve.TrainingTable
		}
		asked[table] += weight(o.Type())
	}
	for _, o := range outputs {
		least += widthBits(o.Type())
	}
	expected := int64(0)
	for table, part := range asked {
		bytes, rows, pinned := storedSize(p, table)
		if rows > 0 {
			expected += unpacked * bytes / rows * min(part, allOf(pinned)) / max(1, allOf(pinned))
		}
	}
	return max(expected, least/8)
}

// storedSize returns the bytes and the rows of those files of a table that a plan reads.
func storedSize(p *Plan, table int) (bytes, rows int64, pinned *catalog.Table) {
	if table == resolve.TrainingTable {
		for _, s := range p.Splits {
			for _, f := range s.Files {
				bytes += f.File.Bytes
				rows += f.File.Rows
			}
		}
		return bytes, rows, p.Relation.Training
	}
	for _, g := range p.Staging[table].Groups {
		bytes += g.Bytes
		rows += g.Rows
	}
	return bytes, rows, p.Relation.Staging[table].Pinned
}

// allOf returns the sum of the weights of a table's columns.
func allOf(t *catalog.Table) int64 {
	sum := int64(0)
	for _, f := range t.TopLevel() {
		sum += weight(f.Type)
	}
	return sum
}

// The assumed sizes of strings and lists, for comparing the weights of columns.
const (
	expectedText  = 16
	expectedItems = 32
)

// weight estimates the bytes that a value of a type takes in a file.
func weight(dt arrow.DataType) int64 {
	switch dt := dt.(type) {
	case *arrow.StructType:
		sum := int64(0)
		for _, f := range dt.Fields() {
			sum += weight(f.Type)
		}
		return sum
	case *arrow.FixedSizeListType:
		return int64(dt.Len()) * weight(dt.Elem())
	case arrow.ListLikeType:
		return expectedItems * weight(dt.Elem())
	case arrow.BinaryDataType:
		return expectedText
	default:
		return max(1, widthBits(dt)/8)
	}
}
