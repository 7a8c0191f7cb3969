package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
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
