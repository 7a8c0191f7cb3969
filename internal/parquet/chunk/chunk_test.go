package chunk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// TestShiftOffsets moves the pages of an offset index, with sizes of byte arrays and without.
func TestShiftOffsets(t *testing.T) {
	t.Parallel()
	one := []byte{0x19, 0x1c, 0x16, 0x08, 0x15, 0x14, 0x16, 0x00, 0x00, 0x00} // page at 4 of 10 bytes from row 0
	moved, err := shiftOffsets(one, 1000)
	require.NoError(t, err)
	require.Equal(t, []byte{0x19, 0x1c, 0x16, 0xd8, 0x0f, 0x15, 0x14, 0x16, 0x00, 0x00, 0x00}, moved)
	again, err := shiftOffsets(moved, -1000)
	require.NoError(t, err)
	require.Equal(t, one, again)
	sized := append(one[:len(one)-1:len(one)-1], 0x19, 0x16, 0x54, 0x00) // and 42 bytes of values
	moved, err = shiftOffsets(sized, 1000)
	require.NoError(t, err)
	require.Equal(t, append([]byte{0x19, 0x1c, 0x16, 0xd8, 0x0f, 0x15, 0x14, 0x16, 0x00, 0x00}, 0x19, 0x16, 0x54, 0x00), moved)

	many := []byte{0x19, 0xfc, 20}
	for range 20 {
		many = append(many, 0x16, 0x08, 0x15, 0x14, 0x16, 0x00, 0x00)
	}
	moved, err = shiftOffsets(append(many, 0), 1000)
	require.NoError(t, err)
	require.Len(t, moved, len(many)+1+20)

	for length := range one {
		_, err := shiftOffsets(one[:length], 1)
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "the first %d bytes", length)
	}
	for name, bad := range map[string][]byte{
		"more bytes":          append(append([]byte{}, one...), 1),
		"another field":       {0x15, 0x02, 0x00},
		"a list of numbers":   {0x19, 0x16, 0x02, 0x00},
		"a location of texts": {0x19, 0x1c, 0x18, 0x00, 0x00, 0x00},
		"a huge list":         {0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		_, err := shiftOffsets(bad, 1)
		require.Equal(t, fault.Corrupt, fault.KindOf(err), name)
	}
}
