package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/rowformat"
)

// uuidLake returns a lake with two tables of UUIDs, ml.events and features.users, whose rows match,
// and the dataset events, which joins them. Their rows were staged from CSV files.
func uuidLake(t *testing.T) lake {
	t.Helper()
	l := stagingLake(t)
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features, ml]}}
datasets:
  events:
    training: {table: ml.events}
    key: [user]
    staging: [{table: features.users, missing: "null"}]
`)
	for table, text := range map[string]string{
		"ml.events":      "user,at\n" + uuidText(1) + ",1\n" + uuidText(2) + ",2\n",
		"features.users": "user,friend\n" + uuidText(1) + "," + uuidText(9) + "\n",
	} {
		file := filepath.Join(l.dir, table+".csv")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		got := run(t, "stage", table, file, "--config", l.config, "--key", "user", "--buckets", "4", "--schema", "user: uuid, at: int, friend: uuid")
		require.Zero(t, got.code, got.stderr)
		got = run(t, "stage", table, file, "--config", l.config, "--mode", "append", "--dry-run", "--allow-duplicates")
		require.Zero(t, got.code, got.stderr) // the types are now those of the table
	}
	return l
}

func uuidText(n int) string { return fmt.Sprintf("795b929e-9a9a-80fd-ea7b-5bf55eb561%02x", n) }

// UUIDs are texts in every text format, whatever the wire, and UUIDs in files.
//
// spec: wire-54, output-12
func TestCatPrintsUUIDs(t *testing.T) {
	l := uuidLake(t)
	for _, wire := range []string{"plain", "indexed"} {
		read := func(args ...string) ran {
			got := run(t, append([]string{"cat", "--config", l.config, "--query", `{"dataset": "events", "wire": "` + wire + `"}`}, args...)...)
			require.Zero(t, got.code, got.stderr)
			return got
		}
		for _, format := range []string{"table", "csv", "jsonl"} {
			got := read("--format", format).stdout
			for _, text := range []string{uuidText(1), uuidText(2), uuidText(9)} {
				require.Contains(t, got, text, "%s, %s", wire, format)
			}
		}
		lines := strings.Split(strings.TrimSpace(read("--format", "jsonl").stdout), "\n")
		for _, format := range []string{"arrow", "parquet"} {
			file := filepath.Join(t.TempDir(), "rows."+format)
			read("--output", file)
			var rows []string
			for _, b := range batchesOf(t, file) {
				require.Equal(t, "arrow.uuid", b.Column(0).DataType().(arrow.ExtensionType).ExtensionName())
				for i := range int(b.NumRows()) {
					rows = append(rows, string(rowformat.AppendJSON(nil, array.RecordToStructArray(b), i)))
				}
			}
			require.Equal(t, lines, rows, "%s, %s", wire, format)
		}
	}
	got := run(t, "cat", "events", "--config", l.config, "--format", "csv", "--filter", "user = '"+uuidText(2)+"'")
	require.Contains(t, got.stdout, uuidText(2)+",2,\n")
	require.NotContains(t, got.stdout, uuidText(1))
}

// Texts become UUIDs if they have their form, and keys in errors are printed as UUIDs.
//
// spec: stage-150
func TestTextsForUUIDs(t *testing.T) {
	l := uuidLake(t)
	file := filepath.Join(l.dir, "bad.csv")
	require.NoError(t, os.WriteFile(file, []byte("user,friend\n{"+uuidText(1)+"},\n"), 0o600))
	got := run(t, "stage", "features.users", file, "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "is not a value of column user, which has type uuid")
	got = run(t, "stage", "features.users", file, "--config", l.config, "--schema", "user: string")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, `column user: the text "{795b929e-9a9a-80fd-ea7b-5bf55eb56101}" is not a UUID such as`)
	got = run(t, "stage", "features.users", file, "--config", l.config, "--schema", "user: long")
	require.Equal(t, exitFailure, got.code)

	require.NoError(t, os.WriteFile(file, []byte("user,friend\n"+uuidText(3)+",\n"), 0o600))
	got = run(t, "stage", "features.users", file, "--config", l.config, "--schema", "user: string")
	require.Zero(t, got.code, got.stderr)
	require.NoError(t, os.WriteFile(file, []byte("user,friend\n"+uuidText(7)+",\n"+uuidText(7)+",\n"), 0o600))
	got = run(t, "stage", "features.users", file, "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "user = "+uuidText(7))
}
