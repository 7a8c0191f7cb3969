package joiner

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// Arrow lets an array of nulls alone leave its values out.
func TestNullsWithoutValues(t *testing.T) {
	for _, f := range columns(t, "a int", "b long", "c word", "d decimal", "e string") {
		t.Run(f.Name, func(t *testing.T) {
			bits := memory.NewBufferBytes([]byte{0})
			buffers := []*memory.Buffer{bits, nil}
			if f.Type.ID() == arrow.STRING {
				buffers = []*memory.Buffer{bits, memory.NewBufferBytes(make([]byte, 4*4)), nil}
			}
			nulls := array.MakeFromData(array.NewData(f.Type, 3, buffers, nil, 3, 0))
			key, ok := keyTypeOf(f.Type)
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
