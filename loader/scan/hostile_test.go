package scan_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

const (
	plainEncoding = 0
	indexEncoding = 8
	numberDeltas  = 5
	byteDeltas    = 7
	zstdCodec     = 6
)

// handmade is a table of one column with one file.
func handmade(t *testing.T, h parquettest.Handmade) (*rig, plan.Source) {
	r := newRig(t)
	value := arrow.DataType(arrow.PrimitiveTypes.Int64)
	if h.Text {
		value = arrow.BinaryTypes.String
	}
	if h.List {
		value = arrow.ListOfField(arrow.Field{Name: "element", Type: value})
	}
	r.table.Fields = []catalog.Field{{ID: 1, Name: "v", Type: value, Required: true}}
	r.table.Specs = map[int]catalog.Spec{0: {}}
	content := h.Content()
	require.Less(t, len(content), 64<<10, "the file is small")
	r.files.Put(locationOf(0), content)
	file := catalog.File{Location: locationOf(0), Bytes: int64(len(content)), Rows: h.Rows}
	return r, plan.Source{Table: r.table, Planned: []int{1}, Files: []plan.FileRange{{File: file, To: h.Rows}}}
}

// text is a plain value of so many zero bytes, in a frame of Zstandard.
func text(zeros int) []byte {
	return parquettest.ZstdZeros(binary.LittleEndian.AppendUint32(nil, uint32(zeros)), zeros)
}

// TestHostileFiles reads files of a few KB that unpack to a GB, or claim to. A server with
// little memory refuses them or reads them correctly, and never takes memory that it has not
// reserved.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	const (
		mb    = 1 << 20
		limit = 64 * mb
		many  = 1 << 27
	)
	one := func(p parquettest.Page) parquettest.Handmade {
		return parquettest.Handmade{Rows: 1, Values: 1, Codec: zstdCodec, Plain: 1 << 40, Text: true, Pages: []parquettest.Page{p}}
	}
	lists := func(texts bool) parquettest.Handmade {
		dictionary := binary.LittleEndian.AppendUint64(nil, 7)
		if texts {
			dictionary = append(binary.LittleEndian.AppendUint32(nil, 1), 'x')
		}
		repetition := parquettest.Levels(parquettest.Run(1, 0, 1), parquettest.Run(many-1, 1, 1))
		definition := parquettest.Levels(parquettest.Run(many, 1, 1))
		body := append(append(repetition, definition...), append([]byte{1}, parquettest.Run(many, 0, 1)...)...)
		return parquettest.Handmade{
			Rows: 1, Values: many, Plain: 1 << 40, List: true, Text: texts,
			Pages: []parquettest.Page{
				{Dictionary: true, Values: 1, Plain: len(dictionary), Body: dictionary},
				{Values: many, Plain: len(body), Encoding: indexEncoding, Body: body},
			},
		}
	}
	// What is said before it is decoded looks harmless: one row, a few KB of pages.
	indices := append([]byte{1}, parquettest.Run(4096, 0, 1)...)
	levels := append(parquettest.Levels(parquettest.Run(1, 0, 1), parquettest.Run(4095, 1, 1)), parquettest.Levels(parquettest.Run(4096, 1, 1))...)
	long := parquettest.Handmade{
		Rows: 1, Values: 4096, Codec: zstdCodec, Plain: 1 << 40, List: true, Text: true,
		Pages: []parquettest.Page{
			{Dictionary: true, Values: 1, Plain: 64<<10 + 4, Body: text(64 << 10)},
			{Values: 4096, Plain: len(levels) + len(indices), Encoding: indexEncoding, Body: parquettest.ZstdZeros(append(levels, indices...), 0)},
		},
	}
	// 2^22 numbers in each block.
	blocks := append(binary.AppendUvarint(nil, 1<<22), 1, 2, 0, 0, 0)
	packed := parquettest.Handmade{Rows: 2, Values: 2, Plain: 100, Pages: []parquettest.Page{{Values: 2, Plain: len(blocks), Encoding: numberDeltas, Body: blocks}}}
	several := one(parquettest.Page{})
	several.Pages = nil
	for range 5 {
		several.Pages = append(several.Pages, parquettest.Page{Values: 1, Plain: 200*mb + 4, Body: text(200 * mb)})
	}
	several.Rows, several.Values = 5, 5
	low := one(parquettest.Page{Values: 1, Plain: mb + 4, Body: text(mb)})
	low.Plain = 1000
	for name, c := range map[string]struct {
		file parquettest.Handmade
		kind fault.Kind
		say  string
	}{
		"a page of 1 GB":             {one(parquettest.Page{Values: 1, Plain: 1<<30 + 4, Body: text(1 << 30)}), fault.Corrupt, "does not have the size"},
		"a page of 200 MB":           {one(parquettest.Page{Values: 1, Plain: 200*mb + 4, Body: text(200 * mb)}), fault.Exhausted, "memory budget"},
		"five pages of 200 MB":       {several, fault.Exhausted, "memory budget"},
		"a page that hides 200 MB":   {one(parquettest.Page{Values: 1, Plain: 104, Body: text(200 * mb)}), fault.Corrupt, "decompress"},
		"a frame that promises":      {one(parquettest.Page{Values: 1, Plain: 104, Body: parquettest.ZstdLiar(1 << 28)}), fault.Corrupt, "decompress"},
		"a list of 2^27 numbers":     {lists(false), fault.Exhausted, "memory budget"},
		"a list of 2^27 texts":       {lists(true), fault.Exhausted, "memory budget"},
		"a list of 4,096 long texts": {long, fault.Exhausted, "memory budget"},
		"deltas of 2^22 together":    {packed, fault.Corrupt, "deltas"},
		"a total that lies low":      {low, fault.Corrupt, "the footer counts 1000"},
		"a negative total":           {func() parquettest.Handmade { h := low; h.Plain = -1; return h }(), fault.Corrupt, "before compression"},
		"a dictionary of nothing":    {parquettest.Handmade{Rows: 1, Values: 1, Plain: 1 << 40, Text: true, Pages: []parquettest.Page{{Dictionary: true, Values: 1 << 30}, {Values: 1, Encoding: indexEncoding}}}, fault.Corrupt, "a dictionary of 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r, source := handmade(t, c.file)
			b := budget.New(limit)
			got := r.read(r.scanner(scan.Options{Budget: b}), source, r.table.Fields)
			require.Equal(t, c.kind, fault.KindOf(got.err), "%v", got.err)
			require.ErrorContains(t, got.err, c.say)
			require.ErrorContains(t, got.err, "row group 0")
			require.NotEmpty(t, fault.As(got.err).Remedy)
			require.Empty(t, got.lines)
			require.LessOrEqual(t, b.Peak(), int64(limit))
			require.Zero(t, b.Used())
		})
	}
}

// TestFootersWithTooLargeTotalsCostNothing reads files whose footers claim more than the
// files contain.
func TestFootersWithTooLargeTotalsCostNothing(t *testing.T) {
	t.Parallel()
	r, source := handmade(t, parquettest.Handmade{
		Rows: 1, Values: 1, Codec: zstdCodec, Plain: 1 << 60, Text: true,
		Pages: []parquettest.Page{{Values: 1, Plain: 14, Body: text(10)}},
	})
	rdr, err := r.scanner(scan.Options{Budget: budget.New(1 << 20)}).Open(t.Context(), source, r.table.Fields)
	require.NoError(t, err)
	defer rdr.Release()
	require.True(t, rdr.Next(), "%v", rdr.Err())
	require.Equal(t, strings.Repeat("\x00", 10), rdr.RecordBatch().Column(0).(*array.String).Value(0))
	require.False(t, rdr.Next())
	require.NoError(t, rdr.Err())
}

// TestLongDictionaryValues checks that 16,384 rows with the same value of 8 MiB are returned
// in batches that fit.
func TestLongDictionaryValues(t *testing.T) {
	t.Parallel()
	const rows, long, limit = 16 << 10, 8 << 20, 64 << 20
	indices := append([]byte{1}, parquettest.Run(rows, 0, 1)...)
	r, source := handmade(t, parquettest.Handmade{
		Rows: rows, Values: rows, Codec: zstdCodec, Plain: 1 << 40, Text: true,
		Pages: []parquettest.Page{
			{Dictionary: true, Values: 1, Plain: long + 4, Body: text(long)},
			{Values: rows, Plain: len(indices), Encoding: indexEncoding, Body: parquettest.ZstdZeros(indices, 0)},
		},
	})
	b := budget.New(limit)
	rdr, err := r.scanner(scan.Options{Budget: b}).Open(t.Context(), source, r.table.Fields)
	require.NoError(t, err)
	defer rdr.Release()
	for range 5 {
		require.True(t, rdr.Next(), "%v", rdr.Err())
		values := rdr.RecordBatch().Column(0).(*array.String)
		require.Positive(t, values.Len())
		for i := range values.Len() {
			require.Len(t, values.Value(i), long)
			require.Empty(t, strings.Trim(values.Value(i), "\x00"))
		}
	}
	require.LessOrEqual(t, b.Peak(), int64(limit))
}

// TestLongPrefixes checks that values stored as differences from the previous one are
// returned in batches that fit.
func TestLongPrefixes(t *testing.T) {
	t.Parallel()
	const rows, long, limit = 1000, 32 << 10, 4 << 20
	prefixes, suffixes := make([]int32, rows), make([]int32, rows)
	for i := range rows {
		prefixes[i], suffixes[i] = long, 1
	}
	prefixes[0], suffixes[0] = 0, long
	body := append(parquettest.Deltas(prefixes...), parquettest.Deltas(suffixes...)...)
	for i := range long + rows - 1 {
		body = append(body, byte('a'+max(i-long, -1)%26+1))
	}
	r, source := handmade(t, parquettest.Handmade{
		Rows: rows, Values: rows, Plain: 1 << 20, Text: true,
		Pages: []parquettest.Page{{Values: rows, Plain: len(body), Encoding: byteDeltas, Body: body}},
	})
	b := budget.New(limit)
	rdr, err := r.scanner(scan.Options{Budget: b}).Open(t.Context(), source, r.table.Fields)
	require.NoError(t, err)
	defer rdr.Release()
	prefix, row := strings.Repeat("a", long), 0
	for rdr.Next() {
		values := rdr.RecordBatch().Column(0).(*array.String)
		require.LessOrEqual(t, values.Len()*long, limit/8)
		for i := range values.Len() {
			want := prefix
			if row > 0 {
				want += string(rune('b' + (row-1)%26))
			}
			require.Equal(t, want, values.Value(i), "row %d", row)
			row++
		}
	}
	require.NoError(t, rdr.Err())
	require.Equal(t, rows, row)
	require.LessOrEqual(t, b.Peak(), int64(limit))
}

// TestFilteredRowsAreReserved checks that both the rows that pass and the rows that they are
// copied from are reserved.
func TestFilteredRowsAreReserved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.add(makeRows(0, 16<<10, bucket.Null), bucket.Null, parquettest.Options{})
	source := r.source()
	source.Checked = nil
	source.Filter = r.filter("id >= 10")
	rdr, err := r.scanner(scan.Options{Budget: budget.New(64 << 20)}).Open(t.Context(), source, r.columns("id", "x", "tags"))
	require.NoError(t, err)
	defer rdr.Release()
	require.True(t, rdr.Next())
	require.Equal(t, int64(16<<10-10), rdr.RecordBatch().NumRows())
}
