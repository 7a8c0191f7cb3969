package parquet_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

func TestNotAParquetFile(t *testing.T) {
	good := write(t, parquettest.Options{}, numbers(t, 0, 100))
	end := func(replace string) []byte { return append(slices.Clone(good[:len(good)-len(replace)]), replace...) }
	huge := slices.Clone(good)
	binary.LittleEndian.PutUint32(huge[len(huge)-8:], 1<<31)
	long := slices.Clone(good)
	binary.LittleEndian.PutUint32(long[len(long)-8:], uint32(len(long)-11))
	zero := slices.Clone(good)
	binary.LittleEndian.PutUint32(zero[len(zero)-8:], 0)
	for name, c := range map[string]struct {
		content []byte
		kind    fault.Kind
		message string
	}{
		"empty":        {nil, fault.Corrupt, "too short"},
		"eleven bytes": {make([]byte, 11), fault.Corrupt, "too short"},
		"text":         {[]byte("this is no Parquet file at all"), fault.Corrupt, "does not end with the magic"},
		"cut":          {good[:len(good)-1], fault.Corrupt, "does not end with the magic"},
		"encrypted":    {end("PARE"), fault.Invalid, "encrypted"},
		"huge footer":  {huge, fault.Corrupt, "cannot hold the footer"},
		"long footer":  {long, fault.Corrupt, "cannot hold the footer"},
		"no footer":    {zero, fault.Corrupt, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parquet.Open(t.Context(), object(t, c.content), parquet.Options{})
			require.ErrorContains(t, err, c.message)
			require.Equal(t, c.kind, fault.KindOf(err))
			require.Equal(t, location, fault.As(err).File)
		})
	}
}

// readDamaged reads a file that may be damaged in any way. It must return exactly the
// rows that the footer counts, or an error.
func readDamaged(t *testing.T, content []byte, parallel int) error {
	t.Helper()
	return readAdmitted(t, content, parallel, nil)
}

// readAdmitted is readDamaged, with memory that admit admits.
func readAdmitted(t *testing.T, content []byte, parallel int, admit func(n, batch int64) error) error {
	t.Helper()
	f, err := parquet.Open(t.Context(), object(t, content), parquet.Options{})
	if err != nil {
		return err
	}
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), BatchRows: 64, Memory: mem, Cores: cores.New(parallel), Admit: admit})
	if err != nil {
		return err
	}
	defer rdr.Release()
	var rows int64
	for rdr.Next() {
		b := rdr.RecordBatch()
		for i := range int(b.NumCols()) {
			require.Equal(t, int(b.NumRows()), b.Column(i).Len())
		}
		_ = deep(t, b) // follows all offsets
		rows += b.NumRows()
	}
	if rdr.Err() == nil {
		require.Equal(t, f.Rows(), rows)
	}
	return rdr.Err()
}

// classified checks the kind of an error about a damaged file: damage can look like an
// unsupported feature.
func classified(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		require.Contains(t, []fault.Kind{fault.Corrupt, fault.Invalid}, fault.KindOf(err), "%v", err)
		require.Equal(t, location, fault.As(err).File, "%v", err)
	}
}

// TestFlippedBits flips bits of files without checksums: in a page, that may change
// values of its own column, but not the number of rows.
func TestFlippedBits(t *testing.T) {
	for name, opts := range map[string]parquettest.Options{
		"zstd":   {RowGroupRows: 100},
		"plain":  {RowGroupRows: 100, Codec: parquettest.Uncompressed, Plain: true, PageBytes: 256},
		"dict":   {RowGroupRows: 100, Codec: parquettest.Uncompressed, PageV2: true},
		"snappy": {RowGroupRows: 300, Codec: parquettest.Snappy},
		"lz4":    {RowGroupRows: 100, Codec: parquettest.HadoopLZ4, Plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			want := numbers(t, 0, 300)
			good := write(t, opts, want)
			require.NoError(t, readDamaged(t, good, 1))
			ends := chunkEnds(t, good, 4)
			random := rand.New(rand.NewPCG(1, 2))
			found, compared := 0, 0
			for i := range 200 / share {
				bad := slices.Clone(good)
				at := random.IntN(len(bad))
				bad[at] ^= 1 << random.IntN(8)
				err := readDamaged(t, bad, i%3)
				classified(t, err)
				if err != nil {
					found++
					continue
				}
				got := mustRead(t, open(t, bad), parquet.ReadOptions{Fields: ids(4), Schema: want.Schema(), BatchRows: 64})
				hit, _ := slices.BinarySearch(ends, at+1)
				for column := range 4 {
					if hit == len(ends) || hit%4 != column {
						requireColumn(t, want, got, column)
						compared++
					}
				}
			}
			require.Greater(t, found, 25/share)
			require.Greater(t, compared, 25/share)
		})
	}
}

// chunkEnds returns the offsets at which the column chunks of a file end, in file order.
func chunkEnds(t *testing.T, content []byte, columns int) []int {
	t.Helper()
	f := open(t, content)
	var ends []int
	end := 4
	for i := range f.RowGroups() {
		for _, id := range ids(columns) {
			end += int(f.Stored(i, []int{id}))
			ends = append(ends, end)
		}
	}
	return ends
}

func TestTruncatedFiles(t *testing.T) {
	good := write(t, parquettest.Options{RowGroupRows: 100}, numbers(t, 0, 300))
	for n := 0; n < len(good); n += 37 {
		err := readDamaged(t, good[:n], 1)
		require.Error(t, err)
		classified(t, err)
	}
	// A file that lost its middle: the footer is complete, but the pages are elsewhere.
	length := int(binary.LittleEndian.Uint32(good[len(good)-8:]))
	for n := 1; n < len(good)-length-8; n += 41 {
		err := readDamaged(t, slices.Delete(slices.Clone(good), 4, 4+n), 1)
		require.Error(t, err)
		classified(t, err)
	}
	// Pages that were never written.
	hollow := slices.Clone(good)
	clear(hollow[4 : len(good)-length-8])
	err := readDamaged(t, hollow, 1)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.NotNil(t, fault.As(err).RowGroup)
}

// TestWrongRowCounts combines pages with the footer of a file that has another number of
// rows.
func TestWrongRowCounts(t *testing.T) {
	a := write(t, parquettest.Options{Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 64))
	b := write(t, parquettest.Options{Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 65))
	length := func(c []byte) int { return int(binary.LittleEndian.Uint32(c[len(c)-8:])) + 8 }
	for name, content := range map[string][]byte{
		"too few":  append(slices.Clone(a[:len(a)-length(a)]), b[len(b)-length(b):]...),
		"too many": append(slices.Clone(b[:len(b)-length(b)]), a[len(a)-length(a):]...),
	} {
		t.Run(name, func(t *testing.T) {
			err := readDamaged(t, content, 1)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
		})
	}
}

// allocated returns the bytes that were allocated so far.
func allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// FuzzFile reads arbitrary content. What it claims to hold allocates nothing beyond what was admitted, and what a footer of its
// size may take.
func FuzzFile(f *testing.F) {
	for _, opts := range []parquettest.Options{{}, {Codec: parquettest.Uncompressed, Plain: true}, {Codec: parquettest.Snappy, PageV2: true, RowGroupRows: 7}} {
		file := write(f, opts, numbers(f, 0, 20))
		f.Add(file)
		f.Add(parquettest.WithUnknownFields(file))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var now, admitted int64 // what is admitted at a time, and all that ever was
		before := allocated()
		err := readAdmitted(t, content, 1, func(n, _ int64) error {
			const most = 64 << 20
			if now+n > most {
				return fault.New(fault.Invalid, "more than the test admits").In("", location)
			}
			now, admitted = now+n, admitted+max(0, n)
			return nil
		})
		const slack, footer = 4 << 20, 256 // bytes of a footer's objects for each byte
		if took := allocated() - before; took > admitted+slack+footer*int64(len(content)) {
			t.Fatalf("%d bytes were allocated for a file of %d, and %d admitted: %v", took, len(content), admitted, err)
		}
		classified(t, err)
	})
}

// fuzzFlips changes a byte of a file of small, uncompressed pages and reads it in batches of the
// given length: it must return as many rows as before, or an error.
func fuzzFlips(f *testing.F, opts parquettest.Options, batchRows int, rows func(t *testing.T) arrow.RecordBatch) {
	f.Helper()
	f.Fuzz(func(t *testing.T, at uint16, mask byte, v2 bool) {
		want := rows(t)
		defer want.Release()
		fields := ids(int(want.NumCols()))
		opts.FieldIDs, opts.PageV2, opts.PageBytes, opts.Codec = fields, v2, 256, parquettest.Uncompressed
		content := write(t, opts, want)
		content[int(at)%len(content)] ^= mask
		file, err := parquet.Open(t.Context(), object(t, content), parquet.Options{})
		if err != nil {
			return
		}
		got, err := read(t, file, parquet.ReadOptions{Fields: fields, Schema: want.Schema(), BatchRows: batchRows})
		if err == nil {
			require.Equal(t, want.NumRows(), got.NumRows())
			got.Release()
		}
	})
}
