package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// BenchmarkTake is the baseline of BenchmarkGather: arrow-go's Take.
func BenchmarkTake(b *testing.B) {
	benchGathers(b, func(b *testing.B, values arrow.Array, indices []int32) arrow.Array {
		b.Helper()
		references := array.NewInt32Data(array.NewData(arrow.PrimitiveTypes.Int32, len(indices),
			[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(indices))}, nil, 0, 0))
		out, err := compute.TakeArray(b.Context(), values, references)
		require.NoError(b, err)
		return out
	})
}
