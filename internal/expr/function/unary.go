package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// kernel computes the values of rows. It returns the first valid row for which the function has no
// result, and the reason; without such a row, the reason is nil.
type kernel[I, O any] func(out []O, in vector[I], v validity) (row int, why *refusal)

// unary returns a function of one argument. O has the width of the result.
func unary[I, O arrow.FixedWidthType](name string, result arrow.DataType, of kernel[I, O]) Bound {
	width := result.(arrow.FixedWidthDataType).Bytes() //nolint:forcetypeassert // the results of all kernels
	return Bound{
		Type: result,
		Size: func(_ []int64, rows int) int64 { return fixedSize(rows, width) },
		Run: func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			v := o.common(args)
			out := o.buffer(rows * width)
			if row, why := of(values[O](out), vectorOf[I](args[0], rows), v); why != nil {
				return nil, failed(name, args, rows, row, why)
			}
			return o.array(result, v, out), nil
		},
	}
}

// each returns the kernel of a function that has a result for each value.
func each[I, O any](f func(I) O) kernel[I, O] {
	return func(out []O, in vector[I], _ validity) (int, *refusal) {
		for i := range out {
			out[i] = f(in.at(i))
		}
		return 0, nil
	}
}

// partial returns the kernel of a function that has no result for some values: it then returns the reason.
func partial[I, O any](f func(I) (O, *refusal)) kernel[I, O] {
	return func(out []O, in vector[I], v validity) (int, *refusal) {
		for i := range out {
			var why *refusal
			if out[i], why = f(in.at(i)); why != nil && v.valid(i) {
				return i, why
			}
		}
		return 0, nil
	}
}
