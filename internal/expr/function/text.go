package function

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// ofText returns a function of one text. O has the width of the result.
func ofText[O arrow.FixedWidthType](name string, result arrow.DataType, f func(x []byte) (O, *refusal)) Bound {
	width := result.(arrow.FixedWidthDataType).Bytes() //nolint:forcetypeassert // the results of all callers
	return Bound{
		Type: result,
		Size: func(_ []int64, rows int) int64 { return fixedSize(rows, width) },
		Run: func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			v, in := o.common(args), textsOf(args[0], rows)
			buffer := o.buffer(rows * width)
			out := values[O](buffer)
			for i := range out {
				var why *refusal
				if out[i], why = f(in.at(i)); why != nil && v.valid(i) {
					return nil, failed(name, args, rows, i, why)
				}
			}
			return o.array(result, v, buffer), nil
		},
	}
}

// ofTexts returns a test of two texts.
func ofTexts(test func(x, y []byte) bool) func(args []Argument) (Bound, error) {
	return func(args []Argument) (Bound, error) {
		if !isText(args[0].Type) || !isText(args[1].Type) {
			return Bound{}, errTypes{}
		}
		return Bound{
			Type: boolType(),
			Size: func(_ []int64, rows int) int64 { return bitSize(rows) },
			Run: func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
				o := newOutput(rows, mem)
				defer o.close()
				v, x, y := o.common(args), textsOf(args[0], rows), textsOf(args[1], rows)
				out := o.zeroed(bitmapBytes(rows))
				for i := range rows {
					if test(x.at(i), y.at(i)) {
						bitutil.SetBit(out.Bytes(), i)
					}
				}
				return o.array(boolType(), v, out), nil
			},
		}, nil
	}
}

func isText(dt arrow.DataType) bool { return dt.ID() == arrow.STRING }

// appender appends the result of a row to out, whose capacity suffices.
type appender func(out []byte, row int) ([]byte, *refusal)

// textRows makes a column of texts, which have at most a number of bytes.
func (o *output) textRows(name string, args []arrow.Array, v validity, most int, row appender) (arrow.Array, error) {
	ends := o.buffer((o.rows + 1) * arrow.Int32SizeBytes)
	content := o.buffer(most)
	offsets, out := values[int32](ends), content.Bytes()[:0]
	offsets[0] = 0
	for i := range o.rows {
		if v.valid(i) {
			var why *refusal
			if out, why = row(out, i); why != nil {
				return nil, failed(name, args, o.rows, i, why)
			}
		}
		if len(out) > math.MaxInt32 {
			return nil, fault.New(fault.Exhausted, "the results of %s for one batch have more than %s, the limit of a column of a batch",
				name, fault.Size(math.MaxInt32)).WithRemedy("read smaller batches")
		}
		offsets[i+1] = int32(len(out))
	}
	content.ResizeNoShrink(len(out))
	return o.array(arrow.BinaryTypes.String, v, ends, content), nil
}

// textSize returns the bytes that textRows allocates.
func textSize(rows int, most int64) int64 {
	return padded(most) + padded(int64(rows+1)*int64(arrow.Int32SizeBytes)) + padded(int64(bitmapBytes(rows)))
}

// bytesOf returns an upper bound of the bytes of an argument's texts.
func bytesOf(a Argument, size int64, rows int) int64 {
	if a.Literal != nil {
		return size * int64(rows)
	}
	return size
}

// rewriting returns a function whose result has at most growth/2 times the bytes of the first argument.
func rewriting(name string, args []Argument, growth int, rewrite func(args []arrow.Array, rows int) appender) Bound {
	return Bound{
		Type: arrow.BinaryTypes.String,
		Size: func(sizes []int64, rows int) int64 {
			return textSize(rows, (bytesOf(args[0], sizes[0], rows)*int64(growth)+1)/2)
		},
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			most := (textsOf(of[0], rows).total(rows)*growth + 1) / 2
			return o.textRows(name, of, o.common(of), most, rewrite(of, rows))
		},
	}
}
