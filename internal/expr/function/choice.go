package function

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// chooser returns the number of the argument whose value is the result of a row; the number of
// arguments stands for null.
type chooser func(args []arrow.Array, rows int) func(row int) int

// choice is a function whose result in each row is one of the arguments, or null. All
// arguments are converted to one type.
type choice struct {
	conversion
	choose chooser
}

// bound returns the function. The result may be null only where nullable says so, or where the chosen argument is.
func (c choice) bound(args []Argument, nullable bool) Bound {
	return Bound{
		Type: c.to, Nullable: nullable,
		Run: c.run,
		Size: func(sizes []int64, rows int) int64 {
			sum := c.size(args, rows) + 2*padded(int64(rows)*int64(arrow.Int32SizeBytes)) // which and at
			content := 2*fixedSize(rows, widestValue) + contentSlack                      // values or offsets
			for i, n := range sizes {
				if args[i].Literal != nil {
					n *= int64(rows)
				}
				content += n
			}
			if isList(c.to) {
				content *= 2 // batch.Choose may copy lists twice
			}
			return sum + content + fixedSize(1, widestValue) + contentSlack // and the null
		},
	}
}

// contentSlack is more than the sum of what the sizes of a list's buffers are rounded up by.
const contentSlack = 8 * bufferAlignment

func (c choice) run(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
	converted := c.conversion.run(args, mem)
	defer releaseAll(converted)
	none := batch.Nulls(c.to, 1, mem)
	defer none.Release()
	pick := c.choose(converted, rows)

	o := newOutput(rows, mem)
	defer o.close()
	which := values[int32](o.buffer(rows * arrow.Int32SizeBytes))
	at := values[int32](o.buffer(rows * arrow.Int32SizeBytes))
	sources := append(slices.Clip(converted), none)
	masks := make([]int, len(sources))
	for i, s := range sources {
		masks[i] = maskOf(s, rows)
	}
	for i := range which {
		w := pick(i)
		which[i], at[i] = int32(w), int32(i&masks[w])
	}
	return batch.Choose(c.to, sources, which, at, mem)
}
