package parquet

import (
	"encoding/binary"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/parquettest"
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
	of := func(count int, prefixes, suffixes []int32, bytes string) *page {
		return &page{
			count: count, encoding: parquet.Encodings.DeltaByteArray,
			values: append(append(parquettest.Deltas(prefixes...), parquettest.Deltas(suffixes...)...), bytes...),
		}
	}
	nulls := of(5, []int32{0, 2}, []int32{3, 1}, "abcd")
	nulls.definition = append(parquettest.Run(3, 0, 1), parquettest.Run(2, 1, 1)...)
	more := of(5, []int32{0, 2}, []int32{3, 1}, "abcd")
	more.definition = parquettest.Run(5, 1, 1)
	for name, c := range map[string]struct {
		page     *page
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
		"empty, required":                   {&page{count: 1, encoding: parquet.Encodings.DeltaByteArray}, 0, ""},
		"undecodable lengths":               {&page{count: 1, encoding: parquet.Encodings.DeltaByteArray, values: []byte{1, 2, 3}}, 0, ""},
		"undecodable levels":                {&page{count: 9, encoding: parquet.Encodings.DeltaByteArray, definition: []byte{0}}, 1, ""},
		"all null, without lengths":         {&page{count: 2, encoding: parquet.Encodings.DeltaByteArray, definition: parquettest.Run(2, 0, 1)}, 1, "none"},
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
			in := thrift{rest: w.out}
			h, body, err := in.page()
			require.NoError(t, err)
			require.Empty(t, in.rest)
			require.Equal(t, []int64{pageData, int64(c.page.count), int64(parquet.Encodings.Plain), h.stored}, []int64{h.kind, h.count, h.encoding, h.uncompressed})
			if c.optional > 0 {
				length := binary.LittleEndian.Uint32(body)
				require.Equal(t, c.page.definition, body[4:4+length])
				body = body[4+length:]
			}
			if c.want == "none" {
				c.want = ""
			}
			require.Equal(t, c.want, string(body))
			require.Equal(t, int64(len(w.out)), w.stats.uncompressed+w.stats.headerBytes)
			require.False(t, w.stats.hasDeltas)
		})
	}
}
