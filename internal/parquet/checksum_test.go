package parquet_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

func ofPyarrow() []string {
	return []string{"testdata/checksums-1.parquet", "testdata/checksums-2.parquet", "testdata/delta-2.parquet"}
}

// checksummed makes the rows of testdata/make.py.
func checksummed() arrow.RecordBatch {
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "l", Type: list(arrow.PrimitiveTypes.Int64, true), Nullable: true},
		{Name: "d", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for i := range 300 {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if i%7 == 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("row %d", i%20))
		}
		b.Field(3).(*array.StringBuilder).Append(fmt.Sprintf("k%d", i%3))
		l := b.Field(2).(*array.ListBuilder)
		if i%5 == 0 {
			l.AppendNull()
			continue
		}
		l.Append(true)
		for j := range i % 4 {
			l.ValueBuilder().(*array.Int64Builder).Append(int64(j))
		}
	}
	return b.NewRecordBatch()
}

// TestPyarrowFiles reads files whose stored Arrow schema has large and dictionary types:
// the table's types are returned.
func TestPyarrowFiles(t *testing.T) {
	want := checksummed()
	for _, name := range ofPyarrow() {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		f := open(t, content)
		require.True(t, f.HasFieldIDs())
		require.Contains(t, string(content), "parquet-cpp-arrow")
		requireEqual(t, want, mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: want.Schema(), BatchRows: 64}))
	}
}

// TestChecksums flips bits of pages: with checksums, each flip is detected.
func TestChecksums(t *testing.T) {
	want := checksummed()
	for _, name := range ofPyarrow() {
		good, err := os.ReadFile(name)
		require.NoError(t, err)
		f := open(t, good)
		var end int64 = 4
		for i := range f.RowGroups() {
			end += f.Stored(i, ids(4))
		}
		silent := 0
		for at := int64(4); at < end; at += 7 * share {
			bad := slices.Clone(good)
			bad[at] ^= 1 << (at % 8)
			got, err := read(t, open(t, bad), parquet.ReadOptions{Fields: ids(4), Schema: want.Schema(), BatchRows: 64})
			if err != nil {
				require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
				continue
			}
			silent++ // statistics in page headers have no checksum, and are not read
			requireEqual(t, want, got)
		}
		require.Less(t, silent, int(end/7/share/3))
	}
}

// TestRequiredChecksums reads files whose pages have checksums as usual. In other files
// every column is refused, whatever decodes it, and no row is returned; if they are
// allowed, WithoutChecksum is called.
func TestRequiredChecksums(t *testing.T) {
	want := checksummed()
	for _, name := range ofPyarrow() {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		requireEqual(t, want, mustRead(t, open(t, content), parquet.ReadOptions{
			Fields: ids(4), Schema: want.Schema(), RequireChecksums: true, WithoutChecksum: func(int) { t.Error("every page has one") },
		}))
	}
	for _, opts := range []parquettest.Options{{}, {PageV2: true, Plain: true}} {
		content := write(t, opts, want)
		for i := range 4 {
			column := arrow.NewSchema([]arrow.Field{want.Schema().Field(i)}, nil)
			got, err := read(t, open(t, content), parquet.ReadOptions{Fields: []int{i + 1}, Schema: column, RequireChecksums: true})
			require.Nil(t, got)
			e := fault.As(err)
			require.Equal(t, fault.Invalid, e.Kind)
			require.ErrorContains(t, err, "column "+column.Field(0).Name+" has pages without a checksum")
			require.Equal(t, location, e.File)
			require.Contains(t, e.Remedy, "require_checksums")

			calls := 0
			mustRead(t, open(t, content), parquet.ReadOptions{Fields: []int{i + 1}, Schema: column, WithoutChecksum: func(int) { calls++ }})
			require.Positive(t, calls)
		}
		none := parquet.ReadOptions{Fields: []int{9}, Schema: arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil), NullIfAbsent: true, RequireChecksums: true}
		require.EqualValues(t, 300, mustRead(t, open(t, content), none).NumRows(), "a column that the file lacks has no pages")
	}
}

// TestOnePageWithoutChecksum removes the checksum of each page in turn: one such page
// suffices, wherever it is in its chunk.
func TestOnePageWithoutChecksum(t *testing.T) {
	want := checksummed()
	good, err := os.ReadFile("testdata/checksums-1.parquet")
	require.NoError(t, err)
	stored := open(t, good).Stored(0, []int{1})
	headers, err := parquet.PageHeaders(good[4:][:stored])
	require.NoError(t, err)
	require.Greater(t, len(headers), 2)
	column := arrow.NewSchema([]arrow.Field{want.Schema().Field(0)}, nil)
	for page, header := range headers {
		content := slices.Clone(good)
		chunk := content[4:][:stored]
		at := header[0]
		for range 3 { // kind and sizes: each is a byte and a number
			_, n := binary.Varint(chunk[at+1:])
			at += 1 + n
		}
		require.EqualValues(t, 0x15, chunk[at], "the checksum, a 32-bit number")
		chunk[at] = 0x16 // 64-bit: an unknown field
		calls := 0
		_, err = read(t, open(t, content), parquet.ReadOptions{Fields: []int{1}, Schema: column, WithoutChecksum: func(int) { calls++ }})
		require.NoError(t, err)
		require.Equal(t, 1, calls, "page %d of %d", page, len(headers))
		_, err = read(t, open(t, content), parquet.ReadOptions{Fields: []int{1}, Schema: column, RequireChecksums: true})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "page %d of %d", page, len(headers))
		require.ErrorContains(t, err, "without a checksum")
	}
}
