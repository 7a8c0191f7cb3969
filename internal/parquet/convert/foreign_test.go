package convert

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// TestToBinaryOfSlice converts a slice of an array, which starts at an offset in shared
// buffers.
func TestToBinaryOfSlice(t *testing.T) {
	t.Parallel()
	whole, _, err := array.FromJSON(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: 2}, strings.NewReader(`["AAE=",null,"AgM=","BAU=",null]`))
	require.NoError(t, err)
	part := array.NewSlice(whole, 1, 4)
	made, err := (&Conversion{Want: arrow.BinaryTypes.Binary}).toBinary(part.Data(), part.NullBitmapBytes(), memory.DefaultAllocator)
	require.NoError(t, err)
	text, err := array.MakeFromData(made).MarshalJSON()
	require.NoError(t, err)
	require.JSONEq(t, `[null,"AgM=","BAU="]`, string(text))
}
