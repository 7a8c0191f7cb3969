package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/rowformat"
	"github.com/penstock/penstock/internal/batch"
)

// In every format, indexed columns become one struct per row, and wire grouped gives one row per
// request. Wire auto means plain.
func TestCatUsesTheWireOfTheQuery(t *testing.T) {
	l := readLake(t)
	const fields = `"dataset": "home", "columns": ["request_id", "country", "last"], "filter": "request_id < 6", "batch_rows": 2`
	indexed := `{"wire": "indexed", ` + fields + `}`
	read := func(format, query string) ran {
		return run(t, "cat", "--config", l.config, "--format", format, "--query", query)
	}
	got := read("jsonl", indexed)
	require.Equal(t, "4 rows; history matched 2 of 4\n", got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	plain := strings.Split(strings.TrimSpace(read("jsonl", `{`+fields+`}`).stdout), "\n")
	require.Len(t, plain, len(lines))
	for i, line := range plain {
		var flat struct {
			ID   int64           `json:"request_id"`
			C    *string         `json:"country"`
			Last json.RawMessage `json:"last"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &flat))
		country, err := json.Marshal(flat.C)
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"request_id": %d, "history": {"last": %s, "country": %s}}`, flat.ID, flat.Last, country), lines[i])
	}
	require.Contains(t, read("csv", indexed).stdout, `3,"{""country"":""null"",""last"":[]}"`)
	require.Contains(t, read("table", indexed).stdout, "history")

	for _, format := range []string{"arrow", "parquet"} {
		file := filepath.Join(t.TempDir(), "rows."+format)
		wrote := run(t, "cat", "--config", l.config, "--format", format, "--output", file, "--query", indexed)
		require.Zero(t, wrote.code, wrote.stderr)
		var written []string
		for _, b := range batchesOf(t, file) {
			for i := range int(b.NumRows()) {
				written = append(written, string(rowformat.AppendJSON(nil, array.RecordToStructArray(b), i)))
			}
		}
		require.Equal(t, lines, written, format)
	}

	require.Equal(t, plain, strings.Split(strings.TrimSpace(read("jsonl", `{"wire": "auto", `+fields+`}`).stdout), "\n"))
	grouped := read("jsonl", `{"dataset": "home", "wire": "grouped", "batch_requests": 2}`)
	require.Equal(t, 0, grouped.code, grouped.stderr)
	require.Equal(t, "6 requests of 7 rows; history matched 5 of 7\n", grouped.stderr)
	require.Equal(t, 6, strings.Count(grouped.stdout, "\n"))

	dense := filepath.Join(t.TempDir(), "dense.parquet")
	wrote := run(t, "cat", "--config", l.config, "--format", "parquet", "--output", dense, "--query",
		`{"dataset": "home", "columns": ["item"], "dense": {"x": {"columns": ["score", "price"], "fill": -1}}, "filter": "request_id = 5"}`)
	require.Zero(t, wrote.code, wrote.stderr)
	packed := batchesOf(t, dense)[0].Column(1)
	require.Equal(t, "[-0.125,7]", string(rowformat.AppendJSON(nil, packed, 0)))
}

// In every format, a category is written as its texts, and nulls stay nulls.
func TestCatWritesCategoriesAsTexts(t *testing.T) {
	l := readLake(t)
	read := func(more string, arguments ...string) ran {
		query := `{"dataset": "home", "columns": ["request_id", {"column": "country"` + more + `}], "batch_rows": 3}`
		return run(t, append([]string{"cat", "--config", l.config, "--query", query}, arguments...)...)
	}
	const category = `, "as": "category"`
	for _, format := range []string{"jsonl", "csv", "table"} {
		texts, got := read("", "--format", format), read(category, "--format", format)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, texts.stdout, got.stdout, format)
		require.Contains(t, got.stdout, "null", format)
	}
	for _, format := range []string{"arrow", "parquet"} {
		var want []arrow.RecordBatch
		for i, more := range []string{"", category} {
			file := filepath.Join(t.TempDir(), "rows."+format)
			wrote := read(more, "--format", format, "--output", file)
			require.Zero(t, wrote.code, wrote.stderr)
			if i == 0 {
				want = batchesOf(t, file)
				continue
			}
			for k, b := range batchesOf(t, file) {
				require.True(t, array.RecordEqual(want[k], b), format)
			}
		}
	}
}

// batchesOf reads an Arrow or a Parquet file, depending on its extension.
func batchesOf(t *testing.T, path string) []arrow.RecordBatch {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	if filepath.Ext(path) == ".parquet" {
		table, err := pqarrow.ReadTable(t.Context(), file, nil, pqarrow.ArrowReadProperties{}, batch.Zeroed(memory.DefaultAllocator))
		require.NoError(t, err)
		var batches []arrow.RecordBatch
		reader := array.NewTableReader(table, 0)
		for reader.Next() {
			reader.RecordBatch().Retain()
			batches = append(batches, reader.RecordBatch())
		}
		return batches
	}
	reader, err := ipc.NewFileReader(file)
	require.NoError(t, err)
	var batches []arrow.RecordBatch
	for i := range reader.NumRecords() {
		b, err := reader.RecordBatchAt(i)
		require.NoError(t, err)
		batches = append(batches, b)
	}
	return batches
}
