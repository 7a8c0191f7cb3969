// Package batch adds to arrow-go what Penstock needs of Arrow arrays and batches:
// gathering rows of several sources into one array, filtering, concatenation,
// sizes, allocators and readers.
//
// Every function follows the same rules for memory:
//
//   - Inputs are borrowed: they are neither changed nor kept after the call.
//     Results belong to the caller, which releases them.
//   - Memory comes from the given allocator. Functions that accept nil then use
//     the Go heap.
//   - Fixed-width values under nulls are zero. So bytes of other streams never
//     leave the process, and equal rows have equal bytes.
//
// Readers follow Penstock's ownership rule: a batch is valid until the next call of Next or
// Release on its reader; Retain it to keep it longer. The code that opens a reader releases it.
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
