package parquet_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// ledger is an Admit function that counts bytes and refuses one request.
type ledger struct {
	inside atomic.Int64 // concurrent calls
	held   int64
	asked  int
	refuse int // number of the request to refuse; 0: none
	batch  int64
}

var errFull = fault.New(fault.Exhausted, "there is no room").WithRemedy("wait")

func (l *ledger) admit(n, batch int64) error {
	if l.inside.Add(1) > 1 {
		return errors.New("concurrent calls")
	}
	defer l.inside.Add(-1)
	if n > 0 {
		l.asked++
		if l.asked == l.refuse {
			return errFull
		}
	}
	l.held += n
	l.batch = max(l.batch, batch)
	return nil
}

// wide has columns for every decoder: those of this package, those of the library with
// and without dictionaries, an absent column, timestamps that are scaled, structs.
func wide(t *testing.T) ([]byte, *arrow.Schema) {
	t.Helper()
	millis := &arrow.TimestampType{Unit: arrow.Millisecond}
	inner := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.BinaryTypes.String, Nullable: true})
	of := func(at arrow.DataType) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{
			{Name: "id", Type: arrow.PrimitiveTypes.Int64},
			{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
			{Name: "tags", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64}), Nullable: true},
			{Name: "words", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
			{Name: "at", Type: at, Nullable: true},
			{Name: "inner", Type: inner, Nullable: true},
			{Name: "flag", Type: arrow.FixedWidthTypes.Boolean},
		}, nil)
	}
	var rows []string
	for i := range 300 {
		rows = append(rows, fmt.Sprintf(`{"id": %d, "name": "%s", "tags": [%d, %d], "words": ["%s", null], "at": "2026-01-01 00:00:00", "inner": {"a": "x"}, "flag": true}`,
			i, strings.Repeat("n", 40*(i%3)), i, i, strings.Repeat("w", 50)))
	}
	content := write(t, parquettest.Options{RowGroupRows: 100}, table(t, of(millis), "["+strings.Join(rows, ",")+"]"))
	fields := of(&arrow.TimestampType{Unit: arrow.Microsecond}).Fields()
	fields = append(fields, arrow.Field{Name: "new", Type: arrow.BinaryTypes.String, Nullable: true})
	return content, arrow.NewSchema(fields, nil)
}

// TestRefusedMemoryEndsReader refuses each request for memory in turn: the reader fails
// with that refusal, and returns everything that it was admitted. Without a refusal only
// the batches stay admitted, until the caller returns them.
func TestRefusedMemoryEndsReader(t *testing.T) {
	t.Parallel()
	content, sc := wide(t)
	fields := append(ids(7), 99)
	refused := 0
	for n, last := 0, 1; n <= last; n++ {
		l := &ledger{refuse: n}
		rdr, err := open(t, content).Read(t.Context(), parquet.ReadOptions{
			Fields: fields, Schema: sc, NullIfAbsent: true, BatchRows: 64, Cores: cores.New(n % 3),
			Memory: allocator(t), Scratch: allocator(t), Admit: l.admit,
		})
		require.NoError(t, err)
		rows := int64(0)
		for rdr.Next() {
			rows += rdr.RecordBatch().NumRows()
			require.LessOrEqual(t, batch.Size(rdr.RecordBatch()), rdr.Admitted(), "the batch takes no more than was admitted")
			l.admit(-rdr.Admitted(), 0) //nolint:errcheck // returning memory is never refused
		}
		err = rdr.Err()
		rdr.Release()
		require.Zero(t, l.held)
		if n == 0 {
			require.NoError(t, err)
			require.Equal(t, int64(300), rows)
			last = l.asked
			require.Positive(t, l.batch)
			continue
		}
		if l.asked < n { // with concurrent decoding there may be fewer requests
			continue
		}
		refused++
		require.ErrorIs(t, err, errFull)
		require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
		require.Contains(t, fault.As(err).Error(), "row group")
		require.Equal(t, location, fault.As(err).File)
	}
	require.Greater(t, refused, 10)
}

// TestHeldBatchesStayAdmitted holds batches beyond their row group and reader: exactly
// their bytes stay admitted. Some decoders put a buffer of an earlier batch into a later
// one: the validity of decimals stored as integers, from the first null on.
func TestHeldBatchesStayAdmitted(t *testing.T) {
	t.Parallel()
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "sum", Type: &arrow.Decimal128Type{Precision: 18}, Nullable: true},
	}, nil)
	var rows []string
	for i := range 300 {
		sum := `"12345"`
		if i%7 == 3 {
			sum = "null"
		}
		rows = append(rows, fmt.Sprintf(`{"id": %d, "sum": %s}`, i, sum))
	}
	options := parquettest.Options{RowGroupRows: 100, DecimalAsInteger: true}
	content := write(t, options, table(t, sc, "["+strings.Join(rows, ",")+"]"))
	for _, rows := range []int{1, 3, 64} {
		l := &ledger{}
		rdr, err := open(t, content).Read(t.Context(), parquet.ReadOptions{
			Fields: ids(2), Schema: sc, BatchRows: rows, Memory: allocator(t), Scratch: allocator(t), Admit: l.admit,
		})
		require.NoError(t, err)
		admitted := int64(0)
		for rdr.Next() {
			held := rdr.RecordBatch()
			held.Retain()
			defer held.Release()
			admitted += rdr.Admitted()
		}
		require.NoError(t, rdr.Err())
		rdr.Release()
		require.Equal(t, admitted, l.held, "%d rows in a batch", rows)
	}
}

// TestCodecsStopAtTheDeclaredSize decompresses data that declares a false size, or none:
// the output stays within the size in the page header.
func TestCodecsStopAtTheDeclaredSize(t *testing.T) { //nolint:paralleltest // it looks at what the process allocates
	onlyWhole(t)
	const room, hidden = 1000, 64 << 20
	zeros := make([]byte, hidden)
	packed := func(c compress.Compression) []byte {
		codec, err := compress.GetCodec(c)
		require.NoError(t, err)
		return codec.Encode(nil, zeros)
	}
	for name, c := range map[string]struct {
		codec compress.Compression
		src   []byte
	}{
		"zstd":                     {compress.Codecs.Zstd, packed(compress.Codecs.Zstd)},
		"zstd without a size":      {compress.Codecs.Zstd, parquettest.ZstdZeros(nil, hidden)},
		"zstd with a false size":   {compress.Codecs.Zstd, parquettest.ZstdLiar(1 << 28)},
		"snappy":                   {compress.Codecs.Snappy, packed(compress.Codecs.Snappy)},
		"snappy with a false size": {compress.Codecs.Snappy, []byte{0xff, 0xff, 0xff, 0x7f, 0}},
		"gzip":                     {compress.Codecs.Gzip, packed(compress.Codecs.Gzip)},
		"brotli":                   {compress.Codecs.Brotli, packed(compress.Codecs.Brotli)},
		"lz4":                      {compress.Codecs.Lz4Raw, packed(compress.Codecs.Lz4Raw)},
		"framed lz4":               {compress.Codecs.Lz4, packed(compress.Codecs.Lz4)},
		"unframed lz4":             {compress.Codecs.Lz4, packed(compress.Codecs.Lz4Raw)},
		"lz4 with a false size":    {compress.Codecs.Lz4, []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			codec, err := compress.GetCodec(c.codec)
			require.NoError(t, err)
			for _, dst := range [][]byte{nil, {}, make([]byte, room)} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err = compress.Decode(codec, dst, c.src)
				runtime.ReadMemStats(&after)
				require.Error(t, err)
				// The tables of a decoder, and a window of Brotli.
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20), "room of %d bytes", len(dst))
			}
		})
	}
}

// TestEmptyPages decodes empty data by every codec.
func TestEmptyPages(t *testing.T) {
	t.Parallel()
	for _, name := range []compress.Compression{
		compress.Codecs.Zstd, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Lz4Raw, compress.Codecs.Lz4,
	} {
		codec, err := compress.GetCodec(name)
		require.NoError(t, err)
		empty, one := codec.Encode(nil, nil), codec.Encode(nil, []byte{7})
		for _, dst := range [][]byte{nil, {}} {
			out, err := compress.Decode(codec, dst, empty)
			require.NoError(t, err, name)
			require.Empty(t, out, name)
			_, err = compress.Decode(codec, dst, one)
			require.Error(t, err, name)
		}
	}
}

// TestLongValuesShortenBatches reads batches that are shorter where a dictionary has long
// values, but not where it is merely large.
func TestLongValuesShortenBatches(t *testing.T) {
	t.Parallel()
	sc := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	file := func(value func(i int) string) *parquet.File {
		var rows []string
		for i := range 1000 {
			rows = append(rows, fmt.Sprintf(`{"s": "%s"}`, value(i)))
		}
		return open(t, write(t, parquettest.Options{}, table(t, sc, "["+strings.Join(rows, ",")+"]")))
	}
	maxRows := func(f *parquet.File) (rows int64) {
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{
			Fields: ids(1), Schema: sc, BatchRows: 500, RunBytes: 10_000, Memory: memory.DefaultAllocator,
		})
		require.NoError(t, err)
		defer rdr.Release()
		sum := int64(0)
		for rdr.Next() {
			rows, sum = max(rows, rdr.RecordBatch().NumRows()), sum+rdr.RecordBatch().NumRows()
		}
		require.NoError(t, rdr.Err())
		require.Equal(t, int64(1000), sum)
		return rows
	}
	require.Equal(t, int64(500), maxRows(file(func(i int) string { return fmt.Sprintf("%03d", i) })), "a large dictionary of short values")
	require.Equal(t, int64(10), maxRows(file(func(i int) string { return strings.Repeat("x", 1000*(i%2)) })))
	require.Equal(t, int64(1), maxRows(file(func(i int) string { return strings.Repeat("x", 20_000*(i%2)) })), "at least one row")
}

// TestBatchesDoNotKeepTheirStream: a batch that outlives its reader does not keep what its reader refers to, such as the
// context of a stream, through the allocator of its memory.
func TestBatchesDoNotKeepTheirStream(t *testing.T) {
	content, schema := wide(t)
	f := open(t, content)
	ids := make([]int, schema.NumFields())
	for i := range ids {
		ids[i] = i + 1
	}
	batches, stream := func() (kept []arrow.RecordBatch, stream weak.Pointer[[1 << 16]byte]) {
		of := new([1 << 16]byte)
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids, Schema: schema, NullIfAbsent: true, Admit: func(int64, int64) error {
			of[0]++
			return nil
		}})
		require.NoError(t, err)
		defer rdr.Release()
		for rdr.Next() {
			b := rdr.RecordBatch()
			b.Retain()
			kept = append(kept, b)
		}
		require.NoError(t, rdr.Err())
		return kept, weak.Make(of)
	}()
	require.NotEmpty(t, batches)
	require.Eventually(t, func() bool {
		runtime.GC()
		return stream.Value() == nil
	}, 10*time.Second, time.Millisecond)
	for _, b := range batches {
		b.Release()
	}
}
