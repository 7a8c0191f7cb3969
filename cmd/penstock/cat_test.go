package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// The rows are the same in process and from a server, in every format.
func TestCat(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	for name, args := range map[string][]string{
		"table.txt":    {"cat", "home"},
		"narrow.txt":   {"cat", "home", "--width", "60"},
		"narrower.txt": {"cat", "home", "--width", "40", "--limit", "2"},
		"rows.csv":     {"cat", "home", "--format", "csv"},
		"one.csv":      {"cat", "home", "--format", "csv", "--columns", "score"},
		"rows.jsonl":   {"cat", "home", "--format", "jsonl"},
		"filter.csv":   {"cat", "home", "--format", "csv", "--columns", "country, request_id", "--filter", "request_id >= 4 AND label = false"},
		"first.jsonl":  {"cat", "home", "--format", "jsonl", "--limit", "3", "--batch-rows", "2", "--columns", "request_id,item"},
		"none.txt":     {"cat", "home", "--filter", "request_id = 77", "--columns", "request_id,last"},
	} {
		t.Run(name, func(t *testing.T) {
			inside := run(t, append(args, "--config", l.config)...)
			require.Zero(t, inside.code, inside.stderr)
			golden(t, name, inside.stdout+"---\n"+inside.stderr)
			require.Equal(t, inside, run(t, append(args, "--uri", server.uri())...))
		})
	}
	server.signal(t)
	code, rest := server.wait(t)
	require.Zero(t, code, server.stderr)
	require.Empty(t, rest, "standard output has one line")
}

// count prints the number of rows that cat prints, with a config file and with a server.
//
// spec: output-17
func TestCount(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	for _, args := range [][]string{
		{"home"},
		{"large"},
		{"large", "--filter", "request_id < 77"},
		{"home", "--filter", "request_id >= 4 AND label = false"},
		{"home", "--filter", "request_id = 77"},
		{"large", "--lanes", "4", "--shard", "1/4"},
		{"large", "--lanes", "4", "--shard", "/4"},
		{"home", "--query", `{"limit": 3}`},
		{"home", "--query", `{"batch_requests": 2}`},
		{"home", "--query", `{"wire": "indexed"}`},
		{"large", "--batch-rows", "99", "--tail", "drop", "--lanes", "3"},
		{"home", "--count", "estimate"},
	} {
		listed := run(t, append([]string{"cat", "--config", l.config, "--format", "jsonl", "--limit", "0"}, args...)...)
		require.Zero(t, listed.code, "%v: %s", args, listed.stderr)
		want := fmt.Sprintln(strings.Count(listed.stdout, "\n"))
		for _, source := range [][]string{{"--config", l.config}, {"--uri", server.uri()}} {
			got := run(t, slices.Concat([]string{"count"}, source, args)...)
			require.Equal(t, ran{stdout: want}, got, "%v %v", source, args)
		}
	}
	home := run(t, "count", "home", "--config", l.config)
	require.Equal(t, home, run(t, "count", "home", "--query", `{"wire": "grouped", "batch_requests": 2}`, "--config", l.config), "rows, not requests")
	require.JSONEq(t, `{"rows": 0}`, run(t, "count", "home", "--json", "--config", l.config, "--filter", "request_id = 77").stdout)
	got := run(t, "count", "gone", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Equal(t, exitUsage, run(t, "count").code)
}

func TestCatArrowFile(t *testing.T) {
	l := readLake(t)
	path := filepath.Join(l.dir, "rows.arrow")
	got := run(t, "cat", "home", "--config", l.config, "--format", "arrow", "--output", path)
	require.Zero(t, got.code, got.stderr)
	require.Empty(t, got.stdout)
	require.Equal(t, "7 rows; history matched 5 of 7\n", got.stderr)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	reader, err := ipc.NewFileReader(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	var ids []int64
	for i := range reader.NumRecords() {
		batch, err := reader.RecordBatchAt(i)
		require.NoError(t, err)
		ids = append(ids, batch.Column(0).(*array.Int64).Int64Values()...)
		batch.Release()
	}
	slices.Sort(ids)
	require.Equal(t, []int64{2, 3, 4, 5, 6, 9007199254740993, 9007199254740993}, ids)
}

func TestCatParquetFile(t *testing.T) {
	l := readLake(t)
	path := filepath.Join(l.dir, "rows.parquet")
	got := run(t, "cat", "home", "--config", l.config, "--output", path)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "7 rows; history matched 5 of 7\n", got.stderr)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "PAR1", string(content[:4]))
	require.Equal(t, "PAR1", string(content[len(content)-4:]))
}

// A failed command leaves neither a partial file nor a temporary one.
func TestCatOutputIsComplete(t *testing.T) {
	l := newLake(t, t.TempDir())
	dir := t.TempDir()
	cut := 0
	require.NoError(t, filepath.WalkDir(l.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".parquet" || !strings.Contains(path, "large") {
			return err
		}
		cut++
		return os.Truncate(path, 100)
	}))
	require.NotZero(t, cut)
	got := run(t, "cat", "large", "--config", l.config, "--format", "csv", "--output", filepath.Join(dir, "rows.csv"))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "ml.large")
	require.Contains(t, got.stderr, ".parquet")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	got = run(t, "cat", "home", "--config", l.config, "--output", filepath.Join(dir, "no", "rows.csv"))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "no such file")
}

// Shards cover all rows, and a cursor resumes where they stopped.
func TestCatShardsAndCursor(t *testing.T) {
	l := readLake(t)
	read := func(args ...string) []string {
		got := run(t, append([]string{"cat", "home", "--config", l.config, "--format", "jsonl", "--columns", "request_id,item"}, args...)...)
		require.Zero(t, got.code, got.stderr)
		lines := slices.Sorted(strings.Lines(got.stdout))
		return lines
	}
	all := read()
	require.Len(t, all, 7)
	require.Equal(t, all, read("--shard", "/2", "--lanes", "4"))
	require.Equal(t, all, slices.Sorted(slices.Values(append(read("--shard", "0/2", "--lanes", "4"), read("--shard", "1/2", "--lanes", "4")...))))
	require.Equal(t, all, read("--order", "shuffled", "--seed", "7", "--epoch", "1"))
	require.Equal(t, all, read("--order", "shuffled", "--shuffle", "rows", "--shuffle-window", "3"))
	require.Equal(t, all, slices.Sorted(slices.Values(append(read("--every", "0/2", "--batch-rows", "2"), read("--every", "1/2", "--batch-rows", "2")...))))
	require.Len(t, read("--batch-rows", "2", "--filter", "item IS NOT NULL", "--tail", "drop", "--count", "exact"), len(read("--filter", "item IS NOT NULL"))/2*2)

	inside, err := environment{clock: time.Now}.openLocal(t.Context(), l.config, false, io.Discard)
	require.NoError(t, err)
	rows, err := inside.Open(t.Context(), []byte(`{"dataset": "home", "batch_rows": 3}`))
	require.NoError(t, err)
	require.True(t, rows.Next())
	cursor := rows.Cursor()
	rows.Release()
	require.NoError(t, inside.Close())
	rest := read("--cursor", string(cursor))
	require.Len(t, rest, 4)
	require.Equal(t, rest, read("--cursor", "@"+l.file(t, "cursor.json", string(cursor))))
	require.Equal(t, all, slices.Sorted(slices.Values(append(rest, read("--limit", "3")...))))
}

// Queries are read from text, a file and standard input; flags override their fields.
func TestCatQuery(t *testing.T) {
	l := readLake(t)
	query := `{"dataset": "home", "columns": ["item"], "filter": "request_id = 3"}`
	path := l.file(t, "query.json", query)
	want := "{\"item\":\"two\\nlines\"}\n"
	for name, args := range map[string][]string{
		"text": {"--query", query}, "file": {"-q", "@" + path}, "standard input": {"-q", "-"},
		"auto":         {"-q", `{"wire":"auto",` + query[1:]},
		"dataset wins": {"home", "--query", `{"dataset": "gone", "columns": ["item"], "filter": "request_id = 3"}`},
		"flags win":    {"--query", `{"dataset": "home", "columns": ["label"], "filter": "request_id = 3"}`, "--columns", "item"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runWith(t, process{terminal: terminal{stdin: strings.NewReader(query)}}, append([]string{"cat", "--config", l.config, "-f", "jsonl"}, args...)...)
			require.Equal(t, ran{0, want, "1 row\n"}, got)
		})
	}
	for format, want := range map[string]string{"jsonl": "{\"item\":\"two\\nlines\",\"x\":[1,1]}\n", "csv": "item,x\n\"two\nlines\",\"[1,1]\"\n"} {
		dense := runWith(t, process{}, "cat", "--config", l.config, "-f", format, "-q", `{"dense": {"x": {"columns": ["label", "label"], "fill": 7}}, `+query[1:])
		require.Equal(t, ran{0, want, "1 row\n"}, dense)
	}
	file := runWith(t, process{environment: environment{env: func(name string) (string, bool) {
		text, ok := map[string]string{envConfig: l.config}[name]
		return text, ok
	}}}, "cat", "-f", "jsonl", "-q", query)
	require.Equal(t, want, file.stdout, "the config file of the environment")
}

// The command succeeds if the reader closes the pipe.
func TestCatIntoAClosedPipe(t *testing.T) {
	l := readLake(t)
	reader, writer := io.Pipe()
	require.NoError(t, reader.Close())
	got := runWith(t, process{terminal: terminal{stdout: writer}}, "cat", "large", "--config", l.config, "--format", "csv")
	require.Equal(t, ran{0, "", ""}, got)
}

// With a limit, the match rates cover only the rows that were read. The output is limited even if
// the query itself cannot have a limit.
func TestCatLimitSaysWhatMatched(t *testing.T) {
	l := readLake(t)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"rows":           {nil, "2 rows, and there are more; --limit 0 gives all; of the rows that were read, history matched 3 of 4\n"},
		"an exact end":   {[]string{"--filter", "request_id = 3", "--limit", "1"}, "1 row; history matched 1 of 1\n"},
		"no staging":     {[]string{"--columns", "item"}, "2 rows, and there are more; --limit 0 gives all\n"},
		"shards":         {[]string{"--shard", "/2", "--lanes", "2"}, "2 rows, and there are more; --limit 0 gives all\n"},
		"requests":       {[]string{"--batch-requests", "2"}, "2 rows, and there are more; --limit 0 gives all\n"},
		"a dropped tail": {[]string{"--tail", "drop", "--count", "exact", "--batch-rows", "3"}, "2 rows, and there are more; --limit 0 gives all\n"},
		"steps":          {[]string{"--every", "0/2", "--batch-rows", "3"}, "2 rows, and there are more; --limit 0 gives all\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, append([]string{"cat", "home", "--config", l.config, "--limit", "2"}, c.args...)...)
			require.Zero(t, got.code, got.stderr)
			require.Equal(t, c.says, got.stderr)
		})
	}
}
