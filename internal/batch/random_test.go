package batch_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// source makes random types and arrays for property tests: nested, with nulls, and
// sliced at every level.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 7))} }

func leaves() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
		arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Timestamp_us,
		&arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.Decimal128Type{Precision: 38, Scale: 3},
		&arrow.FixedSizeBinaryType{ByteWidth: 16}, &arrow.FixedSizeBinaryType{ByteWidth: 5}, arrow.BinaryTypes.String,
		arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeBinary, arrow.Null,
	}
}

// dataType returns a random type with at most depth levels of nesting.
func (s source) dataType(depth int) arrow.DataType {
	if depth == 0 || s.IntN(4) == 0 {
		all := leaves()
		return all[s.IntN(len(all))]
	}
	switch s.IntN(5) {
	case 0:
		return arrow.ListOf(s.dataType(depth - 1))
	case 1:
		return arrow.LargeListOf(s.dataType(depth - 1))
	case 2:
		return arrow.FixedSizeListOf(int32(1+s.IntN(3)), s.dataType(depth-1))
	case 3:
		key := arrow.DataType(arrow.PrimitiveTypes.Int32)
		if s.IntN(2) == 0 {
			key = arrow.BinaryTypes.String
		}
		return arrow.MapOf(key, s.dataType(depth-1))
	default:
		fields := make([]arrow.Field, s.IntN(4))
		for i := range fields {
			fields[i] = arrow.Field{Name: fmt.Sprint("f", i), Type: s.dataType(depth - 1), Nullable: true}
		}
		return arrow.StructOf(fields...)
	}
}

// array returns n rows, sliced from a longer array, with nulls if some is set.
func (s source) array(dt arrow.DataType, n int, some bool) arrow.Array {
	before, after := s.IntN(20), s.IntN(5)
	data := s.data(dt, before+n+after, some)
	defer data.Release()
	slice := array.NewSliceData(data, int64(before), int64(before+n))
	defer slice.Release()
	return array.MakeFromData(slice)
}

func (s source) data(dt arrow.DataType, n int, some bool) arrow.ArrayData {
	validity, nulls := s.validity(n, some)
	switch dt := dt.(type) {
	case *arrow.StructType:
		children := make([]arrow.ArrayData, dt.NumFields())
		for i, field := range dt.Fields() {
			children[i] = s.array(field.Type, n, some).Data()
		}
		return array.NewData(dt, n, []*memory.Buffer{validity}, children, nulls, 0)
	case *arrow.FixedSizeListType:
		items := s.array(dt.Elem(), n*int(dt.Len()), some).Data()
		return array.NewData(dt, n, []*memory.Buffer{validity}, []arrow.ArrayData{items}, nulls, 0)
	case *arrow.ListType:
		offsets, total := s.offsets(n)
		items := s.array(dt.Elem(), total, some).Data()
		buffer := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))
		return array.NewData(dt, n, []*memory.Buffer{validity, buffer}, []arrow.ArrayData{items}, nulls, 0)
	case *arrow.LargeListType:
		offsets, total := s.offsets(n)
		wide := make([]int64, len(offsets))
		for i, o := range offsets {
			wide[i] = int64(o)
		}
		items := s.array(dt.Elem(), total, some).Data()
		buffer := memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(wide))
		return array.NewData(dt, n, []*memory.Buffer{validity, buffer}, []arrow.ArrayData{items}, nulls, 0)
	case *arrow.MapType:
		offsets, total := s.offsets(n)
		keys := s.array(dt.KeyType(), total, false).Data()
		entries := array.NewData(dt.Elem(), total, []*memory.Buffer{nil},
			[]arrow.ArrayData{keys, s.array(dt.ItemType(), total, some).Data()}, 0, 0)
		buffer := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))
		return array.NewData(dt, n, []*memory.Buffer{validity, buffer}, []arrow.ArrayData{entries}, nulls, 0)
	default:
		builder := array.NewBuilder(batch.Default(), dt)
		for range n {
			if some && s.IntN(4) == 0 {
				builder.AppendNull()
			} else {
				s.appendTo(builder)
			}
		}
		out := builder.NewArray().Data()
		if dt.ID() != arrow.NULL {
			s.spoilNulls(out)
		}
		return out
	}
}

// spoilNulls writes bytes under the nulls, as decoders with pooled memory do.
func (s source) spoilNulls(data arrow.ArrayData) {
	width, fixed := data.DataType().(arrow.FixedWidthDataType)
	if !fixed || data.NullN() == 0 {
		return
	}
	if width.BitWidth() == 1 {
		for i := range data.Len() {
			if bitutil.BitIsNotSet(data.Buffers()[0].Bytes(), i) {
				bitutil.SetBit(data.Buffers()[1].Bytes(), i)
			}
		}
		return
	}
	n, values := width.Bytes(), data.Buffers()[1].Bytes()
	for i := range data.Len() {
		if bitutil.BitIsNotSet(data.Buffers()[0].Bytes(), i) {
			for k := i * n; k < (i+1)*n; k++ {
				values[k] = 0xab
			}
		}
	}
}

func (s source) validity(n int, some bool) (*memory.Buffer, int) {
	if !some || n == 0 || s.IntN(4) == 0 {
		return nil, 0
	}
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	for i := range n {
		bitutil.SetBitTo(bits, i, s.IntN(4) != 0)
	}
	return memory.NewBufferBytes(bits), n - bitutil.CountSetBits(bits, 0, n)
}

// offsets returns offsets with any start and many empty rows, and the items needed.
func (s source) offsets(n int) ([]int32, int) {
	offsets, at := make([]int32, n+1), int32(s.IntN(3))
	offsets[0] = at
	for i := range n {
		if s.IntN(3) > 0 {
			at += int32(s.IntN(4))
		}
		offsets[i+1] = at
	}
	return offsets, int(at) + s.IntN(3)
}

func (s source) appendTo(b array.Builder) {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(s.IntN(2) == 0)
	case *array.Decimal128Builder:
		b.Append(decimal128.New(int64(s.Uint64())>>40, s.Uint64()))
	case *array.FixedSizeBinaryBuilder:
		raw := make([]byte, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		for i := range raw {
			raw[i] = byte(s.Uint32())
		}
		b.Append(raw)
	case *array.StringBuilder:
		b.Append(s.text())
	case *array.LargeStringBuilder:
		b.Append(s.text())
	case *array.BinaryBuilder: // with 32-bit or 64-bit offsets
		b.Append([]byte(s.text()))
	case *array.NullBuilder:
		b.AppendNull()
	case *array.Date32Builder:
		b.Append(arrow.Date32(s.IntN(30_000)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(s.Int64N(86_400_000_000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(s.Int64N(1 << 52)))
	default: // the numbers
		if err := b.AppendValueFromString(strconv.Itoa(s.IntN(100))); err != nil {
			panic(err)
		}
	}
}

func (s source) text() string { return strings.Repeat(string(rune('a'+s.IntN(26))), s.IntN(6)) }

// indices returns row numbers in any order, some repeated and some consecutive.
func (s source) indices(rows int) []int32 {
	out := make([]int32, 0, 8)
	for range s.IntN(12) {
		at := s.IntN(rows)
		switch s.IntN(3) {
		case 0: // the same row several times
			for range 1 + s.IntN(10) {
				out = append(out, int32(at))
			}
		case 1: // a run of rows
			for i := range min(1+s.IntN(10), rows-at) {
				out = append(out, int32(at+i))
			}
		default:
			out = append(out, int32(at))
		}
	}
	return out
}
