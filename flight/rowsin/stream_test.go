package rowsin

import (
	"bytes"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// written returns batches as an IPC stream and as an IPC file.
func written(t testing.TB, batches []arrow.RecordBatch, options ...ipc.Option) (stream, file []byte) {
	options = append(options, ipc.WithSchema(batches[0].Schema()))
	var s, f bytes.Buffer
	w := ipc.NewWriter(&s, options...)
	of, err := ipc.NewFileWriter(&f, options...)
	require.NoError(t, err)
	for _, b := range batches {
		require.NoError(t, w.Write(b))
		require.NoError(t, of.Write(b))
	}
	require.NoError(t, w.Close())
	require.NoError(t, of.Close())
	return s.Bytes(), f.Bytes()
}

// readStream reads all rows of a stream or file.
func readStream(t testing.TB, content []byte, limit int64, use func(arrow.RecordBatch)) error {
	memory := budget.New(1 << 30)
	defer func() { require.Zero(t, memory.Used()) }()
	rows, err := OpenStream(t.Context(), bytes.NewReader(content), Options{Limit: limit, Budget: memory})
	if err != nil {
		return err
	}
	defer rows.Close()
	reader := rows.Reader(t.Context(), func() error { return nil })
	defer reader.Release()
	for reader.Next() {
		use(reader.RecordBatch())
	}
	return reader.Err()
}

// spec: stage-137
func TestStreamsAndFilesOfAllTypes(t *testing.T) {
	for _, b := range kindsOfArrow(t) {
		for _, options := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}} {
			stream, file := written(t, []arrow.RecordBatch{b, b}, options...)
			for _, content := range [][]byte{stream, file} {
				var got []arrow.RecordBatch
				err := readStream(t, content, minMessage, func(b arrow.RecordBatch) {
					b.Retain()
					got = append(got, b)
				})
				if fault.KindOf(err) == fault.Invalid && b.Column(0).DataType().ID() == arrow.DICTIONARY {
					continue // of a form that calls refuse too
				}
				require.NoError(t, err, "%s", b.Schema())
				require.Len(t, got, 2)
				for _, g := range got {
					require.True(t, array.Equal(b.Column(0), g.Column(0)), "%s", b.Schema())
				}
			}
		}
	}
}

// Wherever a stream or a file ends early, the rows are not complete.
//
// spec: stage-137
func TestStreamsThatEndEarly(t *testing.T) {
	b := numbersBatch(t, 100)
	stream, file := written(t, []arrow.RecordBatch{b, b})
	read := func(content []byte) error { return readStream(t, content, minMessage, func(arrow.RecordBatch) {}) }
	require.NoError(t, read(stream))
	require.NoError(t, read(file))
	for _, content := range [][]byte{stream, file} {
		for n := range content {
			require.Equal(t, fault.Invalid, fault.KindOf(read(content[:n])), n)
		}
	}
	footerAlone := slices.Clone(file)
	copy(footerAlone[8:], make([]byte, 8))
	require.ErrorContains(t, read(footerAlone), "as Polars writes files")
	require.ErrorContains(t, read(append(slices.Clone(stream), stream...)), "bytes come after the end")
	_, one := written(t, []arrow.RecordBatch{b})
	at := len(file) - 10 - int(file[len(file)-10]) - int(file[len(file)-9])<<8
	few := len(one) - 10 - int(one[len(one)-10]) - int(one[len(one)-9])<<8
	require.ErrorContains(t, read(append(slices.Clone(file[:at]), one[few:]...)), "does not list the 2 batches")
	require.Equal(t, fault.Exhausted, fault.KindOf(readStream(t, stream, 300, func(arrow.RecordBatch) {})))
}

// spec: stage-137
func TestDamagedStreamsAreRefused(t *testing.T) {
	_, file := written(t, []arrow.RecordBatch{numbersBatch(t, 3)})
	for at := range file {
		for _, to := range []byte{0, 0x7f, 0xff} {
			content := slices.Clone(file)
			content[at] = to
			if err := readStream(t, content, minMessage, func(b arrow.RecordBatch) { checkConverted(t, b) }); err != nil {
				require.Contains(t, []fault.Kind{fault.Invalid, fault.Exhausted, fault.Corrupt}, fault.KindOf(err), err)
			}
		}
	}
}

// numbersBatch returns rows of numbers.
func numbersBatch(t testing.TB, rows int) arrow.RecordBatch {
	t.Helper()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range rows {
		b.Append(int64(i))
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(rows))
}
