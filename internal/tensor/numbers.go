package tensor

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/bucket"
)

// numbers reads the values of an array as numbers of one type.
type numbers interface {
	// read writes len(dst)/size numbers, from a position of the array on. Numbers under nulls are
	// arbitrary, but reading them is safe and never a finding.
	read(dst []byte, from int)
}

// findings are the values of a column that cannot become numbers. Reading goes on after them, so
// that an error can name several.
type findings struct {
	unknown []string // values that are not in the vocabulary, formatted; the first few distinct ones
	outside bool     // an index outside of its dictionary
	tooWide bool     // an unscaled decimal with more digits than its type
	unfit   bool     // a number that the type of a cast cannot hold
}

func (f *findings) any() bool { return f.unknown != nil || f.outside || f.tooWide || f.unfit }

// numbersOf returns the numbers of an array that is not a dictionary. Its nulls are those of v.
func (c *column) numbersOf(a arrow.Array, v validity, found *findings) numbers {
	if a.Len() == 0 {
		return copied{} // it may have no buffers
	}
	switch c.Conversion {
	case Same:
		if c.source.id == arrow.BOOL {
			return unpacked{a.Data().Buffers()[1].Bytes(), a.Data().Offset()}
		}
		return copied{fixedBytes(a, c.source.bytes), c.source.bytes}
	case Ticks:
		if c.source.bytes == 4 {
			return widened{as[int32](fixedBytes(a, 4))}
		}
		return copied{fixedBytes(a, 8), 8}
	case Unscaled:
		return unscaled{fixedBytes(a, c.source.bytes), c.source.bytes, v, found}
	case Nearest64, Nearest32:
		return nearest{fixedBytes(a, c.source.bytes), c.source.bytes, c.scale, c.Conversion == Nearest32, v}
	case Hash:
		return c.coded(a, v, hashes{bucket.NewModulus(c.Buckets)})
	case Lookup:
		return c.coded(a, v, &lookup{c.vocabulary, c.Unknown, c.isString(), found})
	default:
		return copied{} // Compile refuses other conversions
	}
}

// fixedBytes returns the bytes of an array's values of a fixed width, from its offset on.
func fixedBytes(a arrow.Array, width int) []byte {
	b := a.Data().Buffers()[1].Bytes()
	return b[a.Data().Offset()*width:][:a.Len()*width]
}

type copied struct {
	bytes []byte
	width int
}

func (c copied) read(dst []byte, from int) { copy(dst, c.bytes[from*c.width:]) }

type unpacked struct {
	bits  []byte
	start int
}

func (u unpacked) read(dst []byte, from int) { unpack(dst, u.bits, u.start+from) }

type widened struct{ values []int32 }

func (w widened) read(dst []byte, from int) {
	out := as[int64](dst)
	for i, value := range w.values[from:][:len(out)] {
		out[i] = int64(value)
	}
}

// codes are the codes of integers and texts.
type codes interface {
	integer(value int64) int64
	text(value []byte) int64
}

// hashes are the buckets of Iceberg's transform.
type hashes struct{ buckets bucket.Modulus }

func (h hashes) integer(value int64) int64 { return int64(h.buckets.Of(bucket.HashInt64(value))) }
func (h hashes) text(value []byte) int64   { return int64(h.buckets.Of(bucket.HashBytes(value))) }

// coded returns the codes of integers or texts as int64.
func (c *column) coded(a arrow.Array, v validity, of codes) numbers {
	switch a := a.(type) {
	case *array.Int8:
		return codedIntegers[int8]{a.Int8Values(), of, v}
	case *array.Int16:
		return codedIntegers[int16]{a.Int16Values(), of, v}
	case *array.Int32:
		return codedIntegers[int32]{a.Int32Values(), of, v}
	case *array.Int64:
		return codedIntegers[int64]{a.Int64Values(), of, v}
	case *array.Uint8:
		return codedIntegers[uint8]{a.Uint8Values(), of, v}
	case *array.Uint16:
		return codedIntegers[uint16]{a.Uint16Values(), of, v}
	case *array.Uint32:
		return codedIntegers[uint32]{a.Uint32Values(), of, v}
	default:
		return codedTexts{textOf(a), of, v}
	}
}

// codedIntegers computes a code per value. Values equal to the one before, as in rows of one
// request, have its code.
type codedIntegers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32] struct {
	values []T
	codes  codes
	nulls  validity
}

func (c codedIntegers[T]) read(dst []byte, from int) {
	out := as[int64](dst)
	values := c.values[from:][:len(out)]
	if h, ok := c.codes.(hashes); ok { // without branches and calls; the values under nulls do no harm
		for i, value := range values {
			out[i] = h.integer(int64(value))
		}
		return
	}
	var before T
	var code int64
	known := false
	for i, value := range values {
		if c.nulls.isNull(from + i) {
			out[i] = 0
			continue
		}
		if !known || value != before {
			before, code, known = value, c.codes.integer(int64(value)), true
		}
		out[i] = code
	}
}

// codedTexts computes a code per value.
type codedTexts struct {
	value func(i int) []byte
	codes codes
	nulls validity
}

func (c codedTexts) read(dst []byte, from int) {
	out := as[int64](dst)
	for i := range out {
		out[i] = 0
		if !c.nulls.isNull(from + i) {
			out[i] = c.codes.text(c.value(from + i))
		}
	}
}

// textOf returns a function that returns the bytes of a value, without a copy.
func textOf(a arrow.Array) func(i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return sliced(a.ValueOffsets(), a.ValueBytes())
	case *array.Binary:
		return sliced(a.ValueOffsets(), a.ValueBytes())
	case *array.LargeString:
		return sliced(a.ValueOffsets(), a.ValueBytes())
	case *array.LargeBinary:
		return sliced(a.ValueOffsets(), a.ValueBytes())
	case *array.FixedSizeBinary:
		return a.Value
	case *array.StringView:
		return func(i int) []byte {
			text := a.Value(i)
			return bytesOf(text)
		}
	default:
		return func(int) []byte { return nil } // Compile refuses other types
	}
}

// sliced returns texts between offsets; content begins at the first offset, as ValueBytes of a
// sliced array does.
func sliced[O int32 | int64](offsets []O, content []byte) func(i int) []byte {
	first := offsets[0]
	return func(i int) []byte { return content[offsets[i]-first : offsets[i+1]-first] }
}
