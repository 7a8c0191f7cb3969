package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Index has the positions of the values of a literal list, by which lookup finds them. It is immutable.
type Index struct {
	integers map[int64]int64
	texts    map[string]int64 // texts refer to the memory of the list
}

// IndexBytes is about the memory that an Index takes for each value of a list: an entry of a map with
// the room that maps keep free.
const IndexBytes = 64

// NewIndex returns the index of the items of a list, which are whole numbers, strings or binary values
// without nulls. The index keeps the items. It fails as Invalid if a value is there twice.
func NewIndex(items arrow.Array) (*Index, error) {
	x := &Index{}
	var err error
	switch of := items.(type) {
	case *array.Int32:
		x.integers, err = positions(of.Len(), func(i int) int64 { return int64(of.Value(i)) })
	case *array.Int64:
		x.integers, err = positions(of.Len(), of.Value)
	case *array.String:
		x.texts, err = positions(of.Len(), of.Value)
	case *array.Binary:
		x.texts, err = positions(of.Len(), of.ValueString)
	default:
		return nil, errTypes{}
	}
	items.Retain() // never released, since the keys of a map may refer to its memory
	return x, err
}

func positions[K comparable](n int, value func(i int) K) (map[K]int64, error) {
	out := make(map[K]int64, n)
	for i := range n {
		k := value(i)
		if _, twice := out[k]; twice {
			return nil, invalid("the list of lookup has the value %v twice", k)
		}
		out[k] = int64(i)
	}
	return out, nil
}
