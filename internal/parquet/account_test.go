package parquet_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// ledger admits bytes, and refuses one request.
type ledger struct {
	inside atomic.Int64 // those who ask now
	held   int64
	asked  int
	refuse int // the number of the request; 0 refuses none
	batch  int64
}

var errFull = fault.New(fault.Exhausted, "there is no room").WithRemedy("wait")

func (l *ledger) admit(n, batch int64) error {
	if l.inside.Add(1) > 1 {
		return errors.New("two ask at once")
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

// wide has columns of every decoder: of this package, and of the library with and
// without dictionaries, absent ones, timestamps that are scaled, structs.
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

// TestAdmitted: whatever request is refused, the reader fails with that refusal,
// and gives back what it was admitted before and all memory. Where none is, the
// batches are the caller's to give back, and nothing else stays.
func TestAdmitted(t *testing.T) {
	t.Parallel()
	content, sc := wide(t)
	fields := append(ids(7), 99)
	refused := 0
	for n, last := 0, 1; n <= last; n++ {
		l := &ledger{refuse: n}
		rdr, err := open(t, content).Read(t.Context(), parquet.ReadOptions{
			Fields: fields, Schema: sc, NullIfAbsent: true, BatchRows: 64, Parallel: n % 3,
			Memory: allocator(t), Scratch: allocator(t), Admit: l.admit,
		})
		require.NoError(t, err)
		rows := int64(0)
		for rdr.Next() {
			rows += rdr.RecordBatch().NumRows()
			require.LessOrEqual(t, batch.Size(rdr.RecordBatch()), rdr.Admitted(), "what the batch takes was admitted")
			l.admit(-rdr.Admitted(), 0) //nolint:errcheck // what is given back is not refused
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
		if l.asked < n { // side by side, requests may be fewer
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

// TestAdmittedForHeldBatches: what a batch was admitted stays admitted while it is held,
// beyond its row group and the reader itself, and no byte more. Decoders of some columns
// make a batch of buffers that an earlier one left: the validity of decimals that are
// stored as integers, once there are nulls.
func TestAdmittedForHeldBatches(t *testing.T) {
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

// TestCodecsStopAtTheDeclaredSize: what a page holds may say anything of itself, or
// nothing, and takes no more than the header said.
func TestCodecsStopAtTheDeclaredSize(t *testing.T) { //nolint:paralleltest // it looks at what the process allocates
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
		"zstd":              {compress.Codecs.Zstd, packed(compress.Codecs.Zstd)},
		"zstd without size": {compress.Codecs.Zstd, parquettest.ZstdZeros(nil, hidden)},
		"zstd that lies":    {compress.Codecs.Zstd, parquettest.ZstdLiar(1 << 28)},
		"snappy":            {compress.Codecs.Snappy, packed(compress.Codecs.Snappy)},
		"snappy that lies":  {compress.Codecs.Snappy, []byte{0xff, 0xff, 0xff, 0x7f, 0}},
		"gzip":              {compress.Codecs.Gzip, packed(compress.Codecs.Gzip)},
		"brotli":            {compress.Codecs.Brotli, packed(compress.Codecs.Brotli)},
		"lz4":               {compress.Codecs.Lz4Raw, packed(compress.Codecs.Lz4Raw)},
		"lz4 in frames":     {compress.Codecs.Lz4, packed(compress.Codecs.Lz4)},
		"lz4 without":       {compress.Codecs.Lz4, packed(compress.Codecs.Lz4Raw)},
		"lz4 that lies":     {compress.Codecs.Lz4, []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0}},
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
				// A decoder's own tables, and a window of Brotli.
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20), "room of %d bytes", len(dst))
			}
		})
	}
}

// TestEmptyPages: what unpacks to nothing does, by every codec.
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

// TestRuns: batches are shorter where a dictionary has long values, and as long as
// is asked for where it only has many.
func TestRuns(t *testing.T) {
	t.Parallel()
	sc := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	file := func(value func(i int) string) *parquet.File {
		var rows []string
		for i := range 1000 {
			rows = append(rows, fmt.Sprintf(`{"s": "%s"}`, value(i)))
		}
		return open(t, write(t, parquettest.Options{}, table(t, sc, "["+strings.Join(rows, ",")+"]")))
	}
	longest := func(f *parquet.File) (most int64) {
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{
			Fields: ids(1), Schema: sc, BatchRows: 500, RunBytes: 10_000, Memory: memory.NewGoAllocator(),
		})
		require.NoError(t, err)
		defer rdr.Release()
		rows := int64(0)
		for rdr.Next() {
			most, rows = max(most, rdr.RecordBatch().NumRows()), rows+rdr.RecordBatch().NumRows()
		}
		require.NoError(t, rdr.Err())
		require.Equal(t, int64(1000), rows)
		return most
	}
	require.Equal(t, int64(500), longest(file(func(i int) string { return fmt.Sprintf("%03d", i) })), "a large dictionary of short values")
	require.Equal(t, int64(10), longest(file(func(i int) string { return strings.Repeat("x", 1000*(i%2)) })))
	require.Equal(t, int64(1), longest(file(func(i int) string { return strings.Repeat("x", 20_000*(i%2)) })), "at least one row")
}
