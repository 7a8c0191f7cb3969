package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ofList returns a function of one list. of returns a function of the range of a row's items; its result is null if it
// returns false. O has the width of the result.
func ofList[O arrow.FixedWidthType](name string, result arrow.DataType, of func(items arrow.Array) func(from, to int) (O, bool, *refusal)) Bound {
	width := result.(arrow.FixedWidthDataType).Bytes() //nolint:forcetypeassert // the results of all callers
	return Bound{
		Type: result, Nullable: true,
		Size: func(_ []int64, rows int) int64 { return fixedSize(rows, width) },
		Run: func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			v, in := o.common(args), listsOf(args[0], rows)
			if v.buffer == nil {
				v = o.allValid()
			}
			buffer := o.buffer(rows * width)
			out, f := values[O](buffer), of(in.items)
			for i := range out {
				if !v.valid(i) {
					clear(out[i : i+1])
					continue
				}
				value, valid, why := f(in.at(i))
				if why != nil {
					return nil, failed(name, args, rows, i, why)
				}
				if out[i] = value; !valid {
					v.clear(i)
				}
			}
			return o.array(result, v, buffer), nil
		},
	}
}

// lists is a vector of lists: row i has a range of items.
type lists struct {
	offsets []int32
	mask    int
	items   arrow.Array
}

func listsOf(a arrow.Array, rows int) lists {
	items := a.(*array.List).ListValues() //nolint:forcetypeassert // Bind checked the type
	b := a.Data().Buffers()[1]
	if b == nil || b.Len() == 0 {
		return lists{offsets: make([]int32, 2), items: items}
	}
	return lists{arrow.GetOffsets[int32](a.Data(), 1), maskOf(a, rows), items}
}

func (l lists) at(row int) (from, to int) {
	row &= l.mask
	return int(l.offsets[row]), int(l.offsets[row+1])
}

// visible returns the items of all rows. The caller releases them. They begin with the first item of the first row.
func (l lists) visible(rows int) arrow.Array {
	if rows == 0 {
		return array.NewSlice(l.items, 0, 0)
	}
	return array.NewSlice(l.items, int64(l.offsets[0]), int64(l.offsets[len(l.offsets)-1]))
}

// ordering returns a function that compares two values of an array.
func ordering(a arrow.Array) func(i, j int) int {
	compare := comparerOf([]arrow.Array{a}, a.Len())
	return func(i, j int) int { return compare(0, i, 0, j) }
}

// equality returns a function that compares a value of an array with a row of an argument.
func equality(a, b arrow.Array, rows int) func(i, row int) bool {
	compare := comparerOf([]arrow.Array{a, b}, a.Len(), rows)
	return func(i, row int) bool { return compare(0, i, 1, row) == 0 }
}
