package write_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/write"
)

// described is what testdata/oracle.py prints of a file.
type described struct {
	Rows         int64            `json:"rows"`
	ColumnSizes  map[string]int64 `json:"column_sizes"`
	ValueCounts  map[string]int64 `json:"value_counts"`
	NullCounts   map[string]int64 `json:"null_counts"`
	Splits       []int64          `json:"splits"`
	Lower, Upper map[string]string
	Exact        map[string]struct {
		Type     string
		NaNs     int64
		Values   int64
		Extremes []string
	}
	FieldIDs  []int  `json:"field_ids"`
	CreatedBy string `json:"created_by"`
	Sorting   [][][]any
	Indexed   bool
	Logical   []string
}

// cases is the number of random files of TestOtherReaders.
const cases = 24

// TestOtherReaders writes random rows of random types. pyarrow, DuckDB and this project's reader
// find the same rows, and the statistics are those that PyIceberg computes from the file's footer.
//
// spec: file-1, file-2, file-4, file-5, file-6, file-7, file-8, file-20
func TestOtherReaders(t *testing.T) {
	t.Parallel()
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python to read files with; make test-go sets it")
	}
	folder := t.TempDir()
	written := map[string]write.WrittenFile{}
	for i := range cases {
		w := newWorld(uint64(i))
		sc := w.flat()
		if i > 0 {
			sc = w.schema(1 + w.rng.IntN(5))
		}
		styles := w.styles(sc)
		opts := write.Options{Schema: sc, FormatVersion: 3, ByteStreamSplit: i%2 == 0, Parallel: i % 3, PageRows: []int64{0, 50, 300}[i%3], UUIDs: uuids(sc.Fields(), i)}.WithRowGroupRows([]int64{0, 700}[i/2%2]).WithPageBytes([]int64{0, 2000}[i/3%2])
		var batches []arrow.RecordBatch
		for range w.rng.IntN(4) {
			batches = append(batches, w.batch(sc, w.rng.IntN(800), styles))
		}
		content, out := writeFile(t, opts, batches...)
		requireRows(t, content, sc, batches...)
		name := strconv.Itoa(i)
		written[name] = out
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".parquet"), content, 0o600))
		writeArrow(t, filepath.Join(folder, name+".arrow"), sc, batches)
	}
	command := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "oracle.py"), folder)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, "%s", &stderr)
	var all map[string]described
	require.NoError(t, json.Unmarshal(output, &all))
	require.Len(t, all, len(written))
	for name, want := range all {
		requireDescribed(t, want, written[name], "case "+name)
	}
}

// uuids returns the ids of the columns of 16 bytes in some cases.
func uuids(fields []arrow.Field, i int) (out []int) {
	for _, f := range fields {
		if fixed, ok := f.Type.(*arrow.FixedSizeBinaryType); ok && fixed.ByteWidth == 16 && i%2 == 0 {
			id, _ := f.Metadata.GetValue("PARQUET:field_id")
			n, _ := strconv.Atoi(id)
			out = append(out, n)
		}
	}
	return out
}

func writeArrow(t *testing.T, name string, sc *arrow.Schema, batches []arrow.RecordBatch) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(sc))
	require.NoError(t, err)
	for _, b := range batches {
		require.NoError(t, w.Write(b))
	}
	require.NoError(t, w.Close())
}

func requireDescribed(t *testing.T, want described, got write.WrittenFile, name string) {
	t.Helper()
	require.Equal(t, want.Rows, got.Rows, name)
	require.Equal(t, want.Splits, append([]int64{}, got.Splits...), name)
	require.Equal(t, "penstock version 1.0.0", want.CreatedBy)
	require.True(t, want.Indexed, name)
	require.Equal(t, want.FieldIDs, slices.Sorted(maps.Keys(got.ColumnBytes)), name)
	for id := range got.ColumnBytes {
		key, exact := strconv.Itoa(id), want.Exact[strconv.Itoa(id)]
		of := fmt.Sprintf("%s, field %d, %s", name, id, exact.Type)
		require.Equal(t, want.ColumnSizes[key], got.ColumnBytes[id], of)
		require.Equal(t, want.ValueCounts[key], got.Values[id], of)
		require.Equal(t, want.NullCounts[key], got.Nulls[id], of)
		require.Equal(t, exact.Values, got.Values[id]-got.Nulls[id], of)
		nans, has := got.NaNs[id]
		if !has {
			nans = -1
		}
		require.Equal(t, exact.NaNs, nans, of)
		if lower, ok := want.Lower[key]; ok {
			require.Equal(t, lower, hex.EncodeToString(got.Lower[id]), of)
		}
		if upper, ok := want.Upper[key]; ok {
			require.Equal(t, upper, hex.EncodeToString(got.Upper[id]), of)
		}
		require.Equal(t, exact.Values > max(exact.NaNs, 0), got.Lower[id] != nil, of)
		if exact.Extremes != nil {
			require.LessOrEqual(t, hex.EncodeToString(got.Lower[id]), exact.Extremes[0], of)
			if got.Upper[id] != nil {
				require.GreaterOrEqual(t, hex.EncodeToString(got.Upper[id]), exact.Extremes[1], of)
			}
		}
	}
}
