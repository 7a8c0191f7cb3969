package page_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/stretchr/testify/require"
)

// decompress decodes into a buffer of the size that a page declares.
func decompress(t *testing.T, name compress.Compression, src []byte, room int) ([]byte, error) {
	t.Helper()
	codec, err := compress.GetCodec(name)
	require.NoError(t, err)
	return compress.Decode(codec, make([]byte, room), src)
}

func packed(t *testing.T, name compress.Compression, content []byte) []byte {
	t.Helper()
	codec, err := compress.GetCodec(name)
	require.NoError(t, err)
	return codec.Encode(nil, content)
}

// TestHadoopLZ4Frames decodes frames, which have the decompressed size in front, of
// blocks with their compressed size in front, and the single unframed block of early C++
// writers.
func TestHadoopLZ4Frames(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, 700_000)
	for i := range content {
		content[i] = byte(random.IntN(4))
	}
	block := func(from, to int) []byte { return packed(t, compress.Codecs.Lz4Raw, content[from:to]) }
	number := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	stored := func(from, to int) []byte { b := block(from, to); return slices.Concat(number(len(b)), b) }
	end := len(content)
	for name, c := range map[string]struct {
		src  []byte
		room int
		ok   bool
	}{
		"one frame":                     {slices.Concat(number(end), stored(0, end)), end, true},
		"two frames":                    {slices.Concat(number(1000), stored(0, 1000), number(end-1000), stored(1000, end)), end, true},
		"a frame of many blocks":        {slices.Concat(number(end), stored(0, 300_000), stored(300_000, 500_000), stored(500_000, end)), end, true},
		"several frames of many blocks": {slices.Concat(number(9000), stored(0, 5000), stored(5000, 9000), number(end-9000), stored(9000, 9001), stored(9001, end)), end, true},
		"an empty frame":                {slices.Concat(number(0), number(end), stored(0, end), number(0)), end, true},
		"unframed":                      {block(0, end), end, true},
		"empty":                         {nil, 0, true},
		"empty but declared":            {nil, 5, false},
		"too short":                     {slices.Concat(number(1000), stored(0, 1000)), 1001, false},
		"too long":                      {slices.Concat(number(1000), stored(0, 1000)), 999, false},
		"a surplus frame":               {slices.Concat(number(1000), stored(0, 1000), number(1), stored(0, 1)), 1000, false},
		"a block too short":             {slices.Concat(number(1000), stored(0, 999)), 1000, false},
		"a block too long":              {slices.Concat(number(1000), stored(0, 1001)), 1000, false},
		"a truncated block":             {slices.Concat(number(1000), stored(0, 1000)[:40]), 1000, false},
		"a truncated frame header":      {slices.Concat(number(1000), stored(0, 1000), []byte{0, 0}), 1000, false},
		"a frame past the end":          {slices.Concat(number(1<<31), stored(0, 1000)), 1000, false},
		"a block past the end":          {slices.Concat(number(1000), number(1<<31), block(0, 1000)), 1000, false},
		"unframed, too short":           {block(0, 999), 1000, false},
		"unframed, too long":            {block(0, 1001), 1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := decompress(t, compress.Codecs.Lz4, c.src, c.room)
			if !c.ok {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.True(t, bytes.Equal(content[:c.room], out))
		})
	}
	out, err := decompress(t, compress.Codecs.Lz4, packed(t, compress.Codecs.Lz4, content), end)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, out), "encoded data is decoded")
}

// TestConcatenatedFrames decodes gzip and Zstandard data of several members.
func TestConcatenatedFrames(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("row by row "), 5000)
	for _, name := range []compress.Compression{compress.Codecs.Gzip, compress.Codecs.Zstd} {
		src := slices.Concat(packed(t, name, content[:7]), packed(t, name, nil), packed(t, name, content[7:40_000]), packed(t, name, content[40_000:]))
		out, err := decompress(t, name, src, len(content))
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(content, out), name)
		for _, room := range []int{len(content) - 1, len(content) + 1} {
			out, err := decompress(t, name, src, room)
			require.True(t, err != nil || len(out) != room, "%s", name)
		}
	}
}

// FuzzHadoopLZ4Frames expects that any input either fills the output or is an error.
func FuzzHadoopLZ4Frames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2, 0x10, 7}, uint16(1))
	f.Add([]byte{0, 0, 0, 2, 0, 0, 0, 2, 0x10, 7, 0, 0, 0, 2, 0x10, 8}, uint16(2))
	f.Fuzz(func(t *testing.T, src []byte, room uint16) {
		out, err := decompress(t, compress.Codecs.Lz4, src, int(room))
		if err == nil {
			require.Len(t, out, int(room))
		}
	})
}
