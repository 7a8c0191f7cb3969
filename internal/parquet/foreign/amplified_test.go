package foreign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

// A file that has a long text once, for many rows, is read in batches that fit, and nothing is allocated before it is reserved.
//
// spec: stage-11
func TestTextsOfDictionariesAreReservedBeforeTheyAreCopied(t *testing.T) {
	const short, long, length = 3000, 1000, 256 << 10
	schema := fields("id", "text")
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	text := strings.Repeat("x", length)
	for i := range short + long {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(map[bool]string{true: "short", false: text}[i < short])
	}
	path := filepath.Join(t.TempDir(), "rows.parquet")
	file, err := os.Create(path) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	w, err := pqarrow.NewFileWriter(schema, file, parquet.NewWriterProperties(parquet.WithStats(false), parquet.WithDictionaryPageSizeLimit(8<<20)), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(b.NewRecordBatch()))
	require.NoError(t, w.Close())
	b.Release()
	stored, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, stored.Size(), int64(4<<20))
	limit := budget.New(16 << 20)
	ctx, entered := limit.Enter(t.Context(), "test")
	defer entered.Release()
	r, err := foreign.Open(ctx, []string{path}, foreign.Options{Budget: limit, Threads: 2})
	require.NoError(t, err)
	next := int64(0)
	for r.Next() {
		require.LessOrEqual(t, bytesOf(r.RecordBatch()), int64(2<<20))
		for i := range int(r.RecordBatch().NumRows()) {
			require.Equal(t, next, r.RecordBatch().Column(0).(*array.Int64).Value(i))
			want := text
			if next < short {
				want = "short"
			}
			require.Equal(t, want, r.RecordBatch().Column(1).(*array.String).Value(i), next)
			next++
		}
	}
	require.NoError(t, r.Err())
	require.EqualValues(t, short+long, next)
	r.Release()
	require.Zero(t, limit.Used())

	none := budget.New(600 << 10) // less than a row takes while it is decoded, beside the pages
	ctx, left := none.Enter(t.Context(), "test")
	defer left.Release()
	r, err = foreign.Open(ctx, []string{path}, foreign.Options{Budget: none, Threads: 2})
	require.NoError(t, err)
	for r.Next() {
		require.NotZero(t, r.RecordBatch().NumRows())
	}
	require.Equal(t, fault.Exhausted, fault.KindOf(r.Err()), "%v", r.Err())
	r.Release()
	require.Zero(t, none.Used())
}

// bytesOf returns the bytes of the texts of a batch.
func bytesOf(b arrow.RecordBatch) int64 {
	return int64(len(b.Column(1).(*array.String).ValueBytes()))
}
