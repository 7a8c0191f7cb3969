package parquet_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
)

// TestPyarrowMatrix reads files written by pyarrow, with every type in every nesting,
// with and without nulls, in every encoding, codec and page version, and compares them
// with the rows given to pyarrow. Short runs use each encoding with both versions and one
// codec.
//
// spec: resolve-62
func TestPyarrowMatrix(t *testing.T) {
	t.Parallel()
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python to write files with; make test-go sets it")
	}
	folder := t.TempDir()
	arguments := []string{filepath.Join("testdata", "matrix.py"), folder}
	if long() {
		arguments = append(arguments, "all")
	}
	output, err := exec.CommandContext(t.Context(), python, arguments...).CombinedOutput()
	require.NoError(t, err, "%s", output)

	stored, err := os.Open(filepath.Join(folder, "rows.arrow"))
	require.NoError(t, err)
	rows, err := ipc.NewFileReader(stored)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(rows.Close(), stored.Close())) }) // subtests run until then
	want, err := rows.RecordBatchAt(0)
	require.NoError(t, err)
	t.Cleanup(want.Release)
	fields := ids(int(want.NumCols()))
	require.Len(t, fields, 17*6*2)
	files, err := filepath.Glob(filepath.Join(folder, "*.parquet"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 14)
	for i, name := range files {
		if i%share != 0 {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			got := mustRead(t, open(t, content), parquet.ReadOptions{
				Fields: fields, Schema: want.Schema(), BatchRows: []int{0, 7, 64}[i%3], Cores: cores.New(i % 2),
			})
			requireEqual(t, want, got)
		})
	}
}
