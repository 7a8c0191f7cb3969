package parquet_test

import (
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
)

func ofPyarrow() []string {
	return []string{"testdata/checksums-1.parquet", "testdata/checksums-2.parquet", "testdata/delta-2.parquet"}
}

// checksummed are the rows of testdata/make.py.
func checksummed() arrow.RecordBatch {
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "l", Type: list(arrow.PrimitiveTypes.Int64, true), Nullable: true},
		{Name: "d", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.NewGoAllocator(), sc)
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

// Files of another writer, whose stored Arrow schema has large and dictionary
// types: the table's types come out.
func TestFilesOfPyarrow(t *testing.T) {
	want := checksummed()
	for _, name := range ofPyarrow() {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		f := open(t, content)
		require.True(t, f.HasFieldIDs())
		require.Contains(t, f.WrittenBy(), "parquet-cpp-arrow")
		requireEqual(t, want, mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: want.Schema(), BatchRows: 64}))
	}
}

// With checksums, every flipped bit of a page is found.
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
		for at := int64(4); at < end; at += 7 {
			bad := slices.Clone(good)
			bad[at] ^= 1 << (at % 8)
			got, err := read(t, open(t, bad), parquet.ReadOptions{Fields: ids(4), Schema: want.Schema(), BatchRows: 64})
			if err != nil {
				require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
				continue
			}
			silent++ // statistics in page headers, which nobody reads, have no checksum
			requireEqual(t, want, got)
		}
		require.Less(t, silent, int(end/7/3))
	}
}
