package frames

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
)

// A segment has an IPC stream as the Arrow library reads it, with aligned bodies.
//
// spec: local-5
func TestSegmentsHoldAlignedStreams(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]arrow.RecordBatch{"plain": everyType(t, memory.DefaultAllocator), "indexed": dictionaries(t, 0), "large": numbers(200_000)} {
		all, err := NewEncoder(b.Schema()).Complete(b, nil)
		require.NoError(t, err)
		stream := bytes.Repeat([]byte{0xAA}, all.Size()) // as of an earlier batch
		written, err := all.Write(stream, cores.New(3))
		require.NoError(t, err)
		require.Equal(t, len(stream), written)
		reader, err := ipc.NewReader(bytes.NewReader(stream))
		require.NoError(t, err)
		require.True(t, reader.Next())
		require.True(t, array.RecordEqual(b, reader.RecordBatch()), name)
		require.False(t, reader.Next())
		require.NoError(t, reader.Err())
		at := 0
		for _, m := range all {
			require.Equal(t, uint32(ipcMarker), binary.LittleEndian.Uint32(stream[at:]))
			require.Equal(t, m.header, stream[at+ipcPrefix:][:len(m.header)])
			padding := stream[at+ipcPrefix+len(m.header):]
			at += ipcPrefix + int(binary.LittleEndian.Uint32(stream[at+4:]))
			require.Zero(t, at%ipcAlign, name)
			require.Empty(t, bytes.Trim(padding[:at-(len(stream)-len(padding))], "\x00"), name)
			for _, part := range m.body {
				at += len(part)
			}
		}
		reader.Release()
	}
}
