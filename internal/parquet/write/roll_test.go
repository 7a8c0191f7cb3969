package write_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/chunk"
	"github.com/penstock/penstock/internal/parquet/write"
)

// files is a sequence of files in memory.
type files struct {
	open    *memoryFile
	content [][]byte
	written []write.WrittenFile
	fail    error
}

func (f *files) Next(context.Context) (chunk.Destination, error) {
	f.open = &memoryFile{}
	return f.open, f.fail
}

func (f *files) Finish(_ context.Context, w write.WrittenFile) error {
	f.content, f.written = append(f.content, f.open.Bytes()), append(f.written, w)
	return nil
}

// roll writes batches to a sequence of files.
func roll(t *testing.T, target int64, opts write.Options, batches ...arrow.RecordBatch) *files {
	t.Helper()
	to := &files{}
	r, err := write.NewRoll(to, target, opts)
	require.NoError(t, err)
	defer r.Release()
	for _, b := range batches {
		require.NoError(t, r.Write(t.Context(), b))
	}
	require.NoError(t, r.Close(t.Context()))
	return to
}

// TestRoll splits sorted rows where their key changes.
//
// spec: file-14
func TestRoll(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64)
	const perKey = 700
	batch := func(from, n, perKey int) arrow.RecordBatch {
		key := array.NewInt64Builder(memory.DefaultAllocator)
		value := array.NewInt64Builder(memory.DefaultAllocator)
		for i := range n {
			key.Append(int64((from + i) / perKey))
			value.Append(mixed(from + i))
		}
		return array.NewRecordBatch(sc, []arrow.Array{key.NewArray(), value.NewArray()}, int64(n))
	}
	opts := write.Options{Schema: sc, Sorting: []write.SortingColumn{{FieldID: 1}}, PageRows: 1000}
	var batches []arrow.RecordBatch
	for i := range 30 {
		batches = append(batches, batch(i*5000, 5000, perKey))
	}
	to := roll(t, 200_000, opts, batches...)
	require.Greater(t, len(to.content), 3)
	at := 0
	for i, content := range to.content {
		w := to.written[i]
		requireRows(t, content, sc, batch(at, int(w.Rows), perKey))
		at += int(w.Rows)
		if i < len(to.content)-1 {
			require.Zero(t, at%perKey, "file %d ends within a key", i)
			require.InDelta(t, 200_000, w.Bytes, 80_000)
		}
	}
	require.Equal(t, 150_000, at)

	// Each batch has a key of its own: a file ends before the first one that begins when it is large enough.
	batches = nil
	for i := range 100 {
		batches = append(batches, batch(i*perKey, perKey, perKey))
	}
	to = roll(t, 200_000, opts, batches...)
	require.Greater(t, len(to.content), 1)
	for _, w := range to.written[:len(to.written)-1] {
		require.Less(t, w.Bytes, int64(240_000))
		require.Zero(t, w.Rows%perKey)
	}

	// One key for all rows: files end anyway. Without an order they end anywhere.
	for _, opts := range []write.Options{opts, {Schema: sc, PageRows: 1000}} {
		to = roll(t, 200_000, opts, batch(0, 150_000, 1<<40))
		require.Greater(t, len(to.content), 3)
		at = 0
		for i, content := range to.content {
			requireRows(t, content, sc, batch(at, int(to.written[i].Rows), 1<<40))
			at += int(to.written[i].Rows)
			if i < len(to.content)-1 {
				require.InDelta(t, 225_000, to.written[i].Bytes, 100_000)
			}
		}
		require.Equal(t, 150_000, at)
	}
	require.Empty(t, roll(t, 1, opts).content, "without rows there is no file")
}

// TestRollOfWideRows: the sizes of files are checked often enough for rows that are large beside the target. The first file has the
// rows by which encodings are chosen.
//
// spec: file-14
func TestRollOfWideRows(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.Binary)
	const target = 1 << 20
	key := array.NewInt64Builder(memory.DefaultAllocator)
	value := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	random := rand.NewChaCha8([32]byte{1})
	const count = 50_000
	for i := range count {
		blob := make([]byte, 512)
		_, _ = random.Read(blob)
		key.Append(int64(i))
		value.Append(blob)
	}
	rows := array.NewRecordBatch(sc, []arrow.Array{key.NewArray(), value.NewArray()}, count)
	to := roll(t, target, write.Options{Schema: sc, Sorting: []write.SortingColumn{{FieldID: 1}}, Choice: &write.EncodingChoice{}}, rows)
	at := int64(0)
	for i, w := range to.written {
		requireRows(t, to.content[i], sc, rows.NewSlice(at, at+w.Rows))
		at += w.Rows
		if i > 0 {
			require.Less(t, w.Bytes, int64(target)*8/5, "file %d", i)
		}
		if i < len(to.written)-1 {
			require.Greater(t, w.Bytes, int64(target)*9/10, "file %d", i)
		}
	}
	require.Equal(t, int64(count), at)
	require.Greater(t, len(to.written), 10)
}

// TestRollErrors fails where its options or its files do.
func TestRollErrors(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64)
	_, err := write.NewRoll(&files{}, 0, write.Options{Schema: sc})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	_, err = write.NewRoll(&files{}, 1, write.Options{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	failure := errors.New("no upload")
	r, err := write.NewRoll(&files{fail: failure}, 1, write.Options{Schema: sc})
	require.NoError(t, err)
	defer r.Release()
	require.ErrorIs(t, r.Write(t.Context(), numbers(sc, 0, 10)), failure)
}
