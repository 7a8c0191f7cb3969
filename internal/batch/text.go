package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
)

// Text returns a value as text for people, such as a key in an error. Values of 16 fixed bytes have
// the form of a UUID, which filters accept for all columns of that type; other types are as Arrow
// prints them.
func Text(a arrow.Array, row int) string {
	if fixed, ok := a.(*array.FixedSizeBinary); ok && fixed.IsValid(row) && len(fixed.Value(row)) == len(uuid.UUID{}) {
		return uuid.UUID(fixed.Value(row)).String()
	}
	return a.ValueStr(row)
}
