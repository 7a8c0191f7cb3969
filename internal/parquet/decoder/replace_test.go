package decoder

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/page"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/parquet/thrift"
)

// fixedColumn is a column of three bytes, required or optional.
func fixedColumn(t *testing.T, definition int16) *schema.Column {
	t.Helper()
	node, err := schema.NewPrimitiveNode("c", parquet.Repetition(definition), parquet.Types.FixedLenByteArray, -1, 3)
	require.NoError(t, err)
	return schema.NewColumn(node, definition, 0)
}

// TestRewrittenDeltas expects a value for each maximum level, all of the same length, and
// no byte left over.
func TestRewrittenDeltas(t *testing.T) {
	t.Parallel()
	of := func(count int, prefixes, suffixes []int32, bytes string) *page.Page {
		return &page.Page{
			Count: count, Encoding: parquet.Encodings.DeltaByteArray,
			Values: append(append(parquettest.Deltas(prefixes...), parquettest.Deltas(suffixes...)...), bytes...),
		}
	}
	nulls := of(5, []int32{0, 2}, []int32{3, 1}, "abcd")
	nulls.Definition = append(parquettest.Run(3, 0, 1), parquettest.Run(2, 1, 1)...)
	more := of(5, []int32{0, 2}, []int32{3, 1}, "abcd")
	more.Definition = parquettest.Run(5, 1, 1)
	for name, c := range map[string]struct {
		page     *page.Page
		optional int16
		want     string // "": damage
	}{
		"whole":                             {of(3, []int32{0, 2, 3}, []int32{3, 1, 0}, "abcd"), 0, "abcabdabd"},
		"no prefixes":                       {of(2, []int32{0, 0}, []int32{3, 3}, "abcdef"), 0, "abcdef"},
		"with nulls":                        {nulls, 1, "abcabd"},
		"fewer values than levels":          {more, 1, ""},
		"fewer values than rows":            {of(4, []int32{0, 2, 3}, []int32{3, 1, 0}, "abcd"), 0, ""},
		"other lengths with the same sum":   {of(2, []int32{0, 2}, []int32{2, 2}, "abcd"), 0, ""},
		"a longer value":                    {of(2, []int32{0, 3}, []int32{3, 1}, "abcd"), 0, ""},
		"a shorter value":                   {of(2, []int32{0, 1}, []int32{3, 1}, "abcd"), 0, ""},
		"a prefix without a previous value": {of(1, []int32{3}, []int32{0}, ""), 0, ""},
		"bytes left over":                   {of(2, []int32{0, 2}, []int32{3, 1}, "abcde"), 0, ""},
		"bytes missing":                     {of(2, []int32{0, 2}, []int32{3, 1}, "abc"), 0, ""},
		"more prefixes than suffixes":       {of(2, []int32{0, 2}, []int32{3}, "abc"), 0, ""},
		"empty, required":                   {&page.Page{Count: 1, Encoding: parquet.Encodings.DeltaByteArray}, 0, ""},
		"undecodable lengths":               {&page.Page{Count: 1, Encoding: parquet.Encodings.DeltaByteArray, Values: []byte{1, 2, 3}}, 0, ""},
		"undecodable levels":                {&page.Page{Count: 9, Encoding: parquet.Encodings.DeltaByteArray, Definition: []byte{0}}, 1, ""},
		"all null, without lengths":         {&page.Page{Count: 2, Encoding: parquet.Encodings.DeltaByteArray, Definition: parquettest.Run(2, 0, 1)}, 1, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := chunkRewriter{described: fixedColumn(t, c.optional), last: make([]byte, 3)}
			err := w.deltas(c.page)
			if c.want == "" {
				require.ErrorIs(t, err, errDeltas)
				require.Empty(t, w.out)
				return
			}
			require.NoError(t, err)
			in := thrift.Reader{Rest: w.out}
			h, body, err := page.Read(&in)
			require.NoError(t, err)
			require.Empty(t, in.Rest)
			require.Equal(t, []int64{page.Data, int64(c.page.Count), int64(parquet.Encodings.Plain), h.Stored}, []int64{h.Kind, h.Count, h.Encoding, h.Uncompressed})
			if c.optional > 0 {
				length := binary.LittleEndian.Uint32(body)
				require.Equal(t, c.page.Definition, body[4:4+length])
				body = body[4+length:]
			}
			if c.want == "none" {
				c.want = ""
			}
			require.Equal(t, c.want, string(body))
			require.Equal(t, int64(len(w.out)), w.stats.Uncompressed+w.stats.HeaderBytes)
			require.False(t, w.stats.HasDeltas)
		})
	}
}

// TestRewrittenNumbers expects a value for each maximum level. Deltas of any width are sums that wrap.
func TestRewrittenNumbers(t *testing.T) {
	t.Parallel()
	// The header is of one block of four miniblocks; each delta is above the minimum of its block.
	stored := func(first, minimum int64, width int, above ...uint64) []byte {
		out := binary.AppendUvarint(nil, 128)
		out = binary.AppendUvarint(out, 4)
		out = binary.AppendVarint(binary.AppendUvarint(out, uint64(len(above))+1), first)
		out = append(binary.AppendVarint(out, minimum), byte(width), 0xff, 0xff, 0xff) // of miniblocks that are not there
		packed := make([]byte, 32/8*width)
		for i, v := range above {
			for bit := range width {
				packed[(i*width+bit)/8] |= byte(v>>bit&1) << ((i*width + bit) % 8)
			}
		}
		return append(out, packed...)
	}
	low, high := int64(math.MinInt32), int64(math.MaxInt32)
	for name, c := range map[string]struct {
		values   []byte
		count    int
		levels   []byte
		optional int16
		want     []int32 // nil: damage
	}{
		"differences of 33 bits":   {stored(high, low-high, 34, 0, uint64(2*(high-low)), 0), 4, nil, 0, []int32{int32(high), int32(low), int32(high), int32(low)}},
		"differences that wrap":    {stored(high, 1, 0, 0, 0), 3, nil, 0, []int32{int32(high), int32(low), int32(low) + 1}},
		"64 bits":                  {stored(low, math.MinInt64, 64, 1<<63+5, 1<<63-7, 1), 4, nil, 0, []int32{int32(low), int32(low) + 5, int32(low) - 2, int32(low) - 1}},
		"unsigned":                 {stored(math.MaxUint32, -math.MaxUint32, 33, 0, 2*math.MaxUint32), 3, nil, 0, []int32{-1, 0, -1}},
		"with nulls":               {stored(3, 2, 1, 1), 4, append(parquettest.Run(2, 0, 1), parquettest.Run(2, 1, 1)...), 1, []int32{3, 6}},
		"all null, without header": {nil, 2, parquettest.Run(2, 0, 1), 1, []int32{}},
		"fewer values than rows":   {stored(3, 2, 1, 1), 3, nil, 0, nil},
		"more values than rows":    {stored(3, 2, 1, 1), 1, nil, 0, nil},
		"fewer values than levels": {stored(3, 2, 1, 1), 3, parquettest.Run(3, 1, 1), 1, nil},
		"empty, required":          {nil, 1, nil, 0, nil},
		"65 bits":                  {stored(3, 2, 65, 1), 2, nil, 0, nil},
		"bytes missing":            {stored(3, 2, 40, 1)[:20], 2, nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, err := schema.NewPrimitiveNode("c", parquet.Repetition(c.optional), parquet.Types.Int32, -1, -1)
			require.NoError(t, err)
			w := chunkRewriter{described: schema.NewColumn(node, c.optional, 0)}
			err = w.numbers(&page.Page{Count: c.count, Encoding: parquet.Encodings.DeltaBinaryPacked, Values: c.values, Definition: c.levels})
			if c.want == nil {
				require.ErrorIs(t, err, errDeltas)
				require.Empty(t, w.out)
				return
			}
			require.NoError(t, err)
			in := thrift.Reader{Rest: w.out}
			h, body, err := page.Read(&in)
			require.NoError(t, err)
			require.Equal(t, []int64{page.Data, int64(c.count), int64(parquet.Encodings.Plain), h.Stored}, []int64{h.Kind, h.Count, h.Encoding, h.Uncompressed})
			if c.optional > 0 {
				body = body[4+binary.LittleEndian.Uint32(body):]
			}
			require.Len(t, body, 4*len(c.want))
			for i, want := range c.want {
				require.Equal(t, want, int32(binary.LittleEndian.Uint32(body[4*i:])))
			}
		})
	}
}
