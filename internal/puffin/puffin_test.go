package puffin_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/puffin"
)

func blobs() []puffin.Blob {
	return []puffin.Blob{
		{Type: puffin.ThetaSketch, Fields: []int{4}, Snapshot: 1 << 60, Sequence: 3, Properties: map[string]string{"ndv": "2"}, Content: []byte("one")},
		{Type: "another", Fields: []int{}, CompressionCodec: "zstd", Content: []byte{}},
	}
}

func encoded(t testing.TB) []byte {
	t.Helper()
	file, footer, err := puffin.Encode(blobs(), map[string]string{"created-by": "test"})
	require.NoError(t, err)
	require.Equal(t, "PFA1", string(file[int64(len(file))-footer:][:4]))
	return file
}

// Blobs that are copied from file to file stay as they are, with members of their descriptions that are not known.
func TestBlobsAreCopied(t *testing.T) {
	file := encoded(t)
	file = bytes.Replace(file, []byte(`"ndv":"2"`), []byte(`"ndv":"7"`), 1)
	require.Contains(t, string(file), `"created-by":"test"`)
	for range 3 {
		got, err := puffin.Decode(file)
		require.NoError(t, err)
		require.Len(t, got, 2)
		for i, want := range blobs() {
			require.Equal(t, want.Content, got[i].Content)
			require.Equal(t, want.Type, got[i].Type)
			require.Equal(t, want.CompressionCodec, got[i].CompressionCodec)
		}
		require.Equal(t, map[string]string{"ndv": "7"}, got[0].Properties)
		require.True(t, got[0].Describes(puffin.ThetaSketch, 4))
		require.False(t, got[0].Describes(puffin.ThetaSketch, 5))
		file, _, err = puffin.Encode(append([]puffin.Blob{{Type: "before", Fields: []int{1}, Content: []byte("xx")}}, got...), nil)
		require.NoError(t, err)
		got, err = puffin.Decode(file)
		require.NoError(t, err)
		file, _, err = puffin.Encode(got[1:], nil)
		require.NoError(t, err)
	}
}

// Damaged files are refused, or have blobs inside the file.
func TestDamagedFilesAreRefused(t *testing.T) {
	good := encoded(t)
	for i := range good {
		for _, bad := range [][]byte{good[:i], append(append(append([]byte{}, good[:i]...), good[i]^0x11), good[i+1:]...)} {
			use(bad)
		}
		_, err := puffin.Decode(good[:i])
		require.Equal(t, fault.Corrupt, fault.KindOf(err))
	}
	compressed := append([]byte{}, good...)
	compressed[len(compressed)-8] = 1
	_, err := puffin.Decode(compressed)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	for _, place := range []string{`"offset":-4,"length":3`, `"offset":4,"length":-1`, `"offset":4,"length":9223372036854775807`, `"offset":0,"length":1`, `"length":1`} {
		_, err := puffin.Decode(file(`{"blobs":[{"type":"t","fields":[],` + place + `}]}`))
		require.Equal(t, fault.Corrupt, fault.KindOf(err), place)
	}
}

// file returns a file with a footer, and three bytes before it.
func file(footer string) []byte {
	n := len(footer)
	return append([]byte("PFA1abcPFA1"+footer), byte(n), byte(n>>8), 0, 0, 0, 0, 0, 0, 'P', 'F', 'A', '1')
}

// use decodes a file, and encodes its blobs.
func use(content []byte) {
	if got, err := puffin.Decode(content); err == nil {
		_, _, _ = puffin.Encode(got, nil)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f))
	f.Fuzz(func(_ *testing.T, content []byte) { use(content) })
}
