package convert

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// overwritesValues reports whether the library writes every value of a type except those under
// nulls. Then it is cheaper to clear the values under nulls after decoding than to clear all memory
// before.
func overwritesValues(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.TIME64, arrow.TIMESTAMP:
		return true
	default:
		return false
	}
}

// zeroNulls clears each of n values that is null. width is the size of a value in bytes.
func zeroNulls(values, validity []byte, width, n int) {
	for i := range n {
		if !bitutil.BitIsSet(validity, i) {
			clear(values[i*width : (i+1)*width])
		}
	}
}
