package joiner

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// Arrow allows an array that is all null to have no values.
func TestNullsWithoutValues(t *testing.T) {
	for _, dt := range []arrow.DataType{
		arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String,
		&arrow.FixedSizeBinaryType{ByteWidth: 4}, &arrow.Decimal128Type{Precision: 9, Scale: 2},
	} {
		t.Run(dt.String(), func(t *testing.T) {
			bits := memory.NewBufferBytes([]byte{0})
			buffers := []*memory.Buffer{bits, nil}
			if dt.ID() == arrow.STRING {
				buffers = []*memory.Buffer{bits, memory.NewBufferBytes(make([]byte, 4*4)), nil}
			}
			nulls := array.MakeFromData(array.NewData(dt, 3, buffers, nil, 3, 0))
			key, ok := keyTypeOf(dt)
			require.True(t, ok)
			for _, types := range [][]keyType{{key}, {key, key}} {
				e := newEncoder(types)
				arrays := []arrow.Array{nulls, nulls}[:len(types)]
				kept, _ := e.size(arrays)
				require.Positive(t, kept)
				v := e.encode(arrays)
				require.EqualValues(t, 3, v.nulls)
				require.Equal(t, []bool{true, true, true}, v.null)
			}
		})
	}
}
