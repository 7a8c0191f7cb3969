package disk

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
)

// randomArrays makes types and arrays: nested, with nulls, sliced at every level, and with
// dictionaries that arrays share.
type randomArrays struct {
	*rand.Rand
	dictionaries map[string]arrow.Array
}

func newRandomArrays(seed uint64) *randomArrays {
	return &randomArrays{rand.New(rand.NewPCG(seed, 11)), map[string]arrow.Array{}}
}

func leafTypes() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32,
		arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Timestamp_us,
		&arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.Decimal128Type{Precision: 38, Scale: 3},
		&arrow.FixedSizeBinaryType{ByteWidth: 16}, &arrow.FixedSizeBinaryType{ByteWidth: 5}, arrow.BinaryTypes.String,
		arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeBinary, arrow.Null, codes(),
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.PrimitiveTypes.Int64},
	}
}

func codes() arrow.DataType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
}

func (s *randomArrays) dataType(depth int) arrow.DataType {
	if depth == 0 || s.IntN(3) == 0 {
		all := leafTypes()
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
		return arrow.MapOf(arrow.BinaryTypes.String, s.dataType(depth-1))
	default:
		fields := make([]arrow.Field, s.IntN(4))
		for i := range fields {
			fields[i] = arrow.Field{Name: fmt.Sprint("f", i), Type: s.dataType(depth - 1), Nullable: true}
		}
		return arrow.StructOf(fields...)
	}
}

// chunk returns arrays of one type, some of them empty.
func (s *randomArrays) chunk(of arrow.DataType) []arrow.Array {
	out := make([]arrow.Array, 1+s.IntN(4))
	for i := range out {
		out[i] = s.array(of, s.IntN(60)*s.IntN(3), s.IntN(3) > 0)
	}
	return out
}

// array returns n rows of a longer array.
func (s *randomArrays) array(of arrow.DataType, n int, nulls bool) arrow.Array {
	before, after := s.IntN(20), s.IntN(5)
	return array.MakeFromData(array.NewSliceData(s.content(of, before+n+after, nulls), int64(before), int64(before+n)))
}

func (s *randomArrays) content(of arrow.DataType, n int, nulls bool) arrow.ArrayData {
	validity, count := s.validity(n, nulls)
	nested := func(length int, buffers []*memory.Buffer, children ...arrow.ArrayData) arrow.ArrayData {
		return array.NewData(of, length, append([]*memory.Buffer{validity}, buffers...), children, count, 0)
	}
	switch of := of.(type) {
	case *arrow.StructType:
		children := make([]arrow.ArrayData, of.NumFields())
		for i, field := range of.Fields() {
			children[i] = s.array(field.Type, n, nulls).Data()
		}
		return nested(n, nil, children...)
	case *arrow.FixedSizeListType:
		return nested(n, nil, s.array(of.Elem(), n*int(of.Len()), nulls).Data())
	case *arrow.ListType:
		offsets, total := s.offsets(n)
		return nested(n, []*memory.Buffer{memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, s.array(of.Elem(), total, nulls).Data())
	case *arrow.LargeListType:
		offsets, total := s.offsets(n)
		wide := make([]int64, len(offsets))
		for i, o := range offsets {
			wide[i] = int64(o)
		}
		return nested(n, []*memory.Buffer{memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(wide))}, s.array(of.Elem(), total, nulls).Data())
	case *arrow.MapType:
		offsets, total := s.offsets(n)
		entries := array.NewData(of.Elem(), total, []*memory.Buffer{nil},
			[]arrow.ArrayData{s.array(of.KeyType(), total, false).Data(), s.array(of.ItemType(), total, nulls).Data()}, 0, 0)
		return nested(n, []*memory.Buffer{memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, entries)
	case *arrow.DictionaryType:
		return s.coded(of, n, validity, count)
	default:
		return s.leaf(of, n, nulls)
	}
}

// coded returns indices into a dictionary that other arrays of the type share. Indices of nulls are
// arbitrary, as in pooled memory.
func (s *randomArrays) coded(of *arrow.DictionaryType, n int, validity *memory.Buffer, count int) arrow.ArrayData {
	name := fmt.Sprint(of, s.IntN(2))
	dictionary := s.dictionaries[name]
	if dictionary == nil {
		dictionary = s.array(of.ValueType, 1+s.IntN(20), false)
		s.dictionaries[name] = dictionary
	}
	indices := make([]int32, n)
	for i := range indices {
		indices[i] = int32(s.IntN(dictionary.Len()))
		if validity != nil && bitutil.BitIsNotSet(validity.Bytes(), i) {
			indices[i] = int32(s.Uint32())
		}
	}
	held, _ := dictionary.Data().(*array.Data)
	return array.NewDataWithDictionary(of, n, []*memory.Buffer{validity, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(indices))}, count, 0, held)
}

func (s *randomArrays) leaf(of arrow.DataType, n int, nulls bool) arrow.ArrayData {
	builder := array.NewBuilder(memory.DefaultAllocator, of)
	for range n {
		if nulls && s.IntN(4) == 0 {
			builder.AppendNull()
		} else {
			s.appendTo(builder)
		}
	}
	return builder.NewArray().Data()
}

func (s *randomArrays) validity(n int, nulls bool) (*memory.Buffer, int) {
	if !nulls || n == 0 || s.IntN(4) == 0 {
		return nil, 0
	}
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	for i := range n {
		bitutil.SetBitTo(bits, i, s.IntN(4) != 0)
	}
	return memory.NewBufferBytes(bits), n - bitutil.CountSetBits(bits, 0, n)
}

// offsets returns offsets with any start and many empty rows, and the number of items.
func (s *randomArrays) offsets(n int) ([]int32, int) {
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

func (s *randomArrays) appendTo(b array.Builder) {
	text := strings.Repeat(string(rune('a'+s.IntN(26))), s.IntN(6))
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
		b.Append(text)
	case *array.LargeStringBuilder:
		b.Append(text)
	case *array.BinaryBuilder:
		b.Append([]byte(text))
	case *array.NullBuilder:
		b.AppendNull()
	case *array.Date32Builder:
		b.Append(arrow.Date32(s.IntN(30_000)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(s.Int64N(86_400_000_000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(s.Int64N(1 << 52)))
	default:
		if err := b.AppendValueFromString(strconv.Itoa(s.IntN(100))); err != nil {
			panic(err)
		}
	}
}
