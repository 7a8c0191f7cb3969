package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// checkExact fails if the JSON value has a number that programs round, a snapshot id that is a
// number, or a null instead of an empty list. path is the path of the value.
func checkExact(t *testing.T, path string, value any) {
	t.Helper()
	switch v := value.(type) {
	case nil:
		require.Fail(t, path+" is null")
	case map[string]any:
		for name, member := range v {
			checkExact(t, path+"."+name, member)
		}
	case []any:
		for i, item := range v {
			checkExact(t, fmt.Sprintf("%s[%d]", path, i), item)
		}
	case json.Number:
		number, err := v.Float64()
		require.NoError(t, err, path)
		require.LessOrEqual(t, max(number, -number), float64(1<<53), path)
		for _, id := range []string{".snapshot", ".parent", ".undo.from", ".undo.to", ".since"} {
			require.False(t, strings.HasSuffix(path, id), "%s is %s", path, v)
		}
	}
}

// jsonCommands are the paths of the commands with the flag --json.
func jsonCommands() []string {
	var out []string
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Flags().Lookup("json") != nil {
			out = append(out, c.CommandPath())
		}
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	for _, c := range (process{}).commands() {
		visit(c)
	}
	return out
}

// No command prints an integer above 2^53 as a JSON number, and snapshot ids are always strings. An
// id that is absent says that there is no snapshot. Nothing is null.
//
// spec: output-15, output-16, promote-63
func TestJSONHasNoNumbersThatProgramsRound(t *testing.T) {
	l, _ := stagedHistory(t)
	l.config = l.file(t, "promoted.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  home:
    training: {table: features.history}
    key: [req_id]
    staging:
    - {table: features.origin, name: origin, prefix: origin_}
`)
	ran := map[string]bool{}
	call := func(from []string, args ...string) map[string]any {
		t.Helper()
		got := run(t, append(append(args, "--json"), from...)...)
		require.Zero(t, got.code, "%v: %s", args, got.stderr)
		var out any
		d := json.NewDecoder(bytes.NewReader([]byte(got.stdout)))
		d.UseNumber()
		require.NoError(t, d.Decode(&out), got.stdout)
		checkExact(t, strings.Join(args, " "), out)
		ran[args[0]], ran[strings.Join(args[:min(2, len(args))], " ")] = true, true
		object, _ := out.(map[string]any)
		return object
	}
	config := []string{"--config", l.config}
	origin := l.parquetOf(t, "origin.parquet", `[{"req_id": 1, "country": "AT", "codes": [4, 3]}]`,
		nullable("req_id", arrow.PrimitiveTypes.Int64), nullable("country", arrow.BinaryTypes.String), nullable("codes", arrow.ListOf(arrow.PrimitiveTypes.Int32)))
	more := l.parquetFile(t, "more.parquet", `[{"req_id": 3, "country": "SE"}]`)

	created := call(config, "stage", "features.origin", origin, "--key", "req_id", "--buckets", "1")
	require.IsType(t, "", created["snapshot"])
	require.NotContains(t, created, "parent")
	undone := call(config, "log", "features.origin")["snapshots"].([]any)[0].(map[string]any)["undo"].(map[string]any)
	require.NotContains(t, undone, "from", "there was no snapshot before")
	require.Equal(t, created["snapshot"], undone["to"])
	dry := call(config, "stage", "features.origin", more, "--dry-run")
	require.NotContains(t, dry, "snapshot")
	call(config, "stage", "features.history", more, "--branch", "next")
	published := call(config, "publish", "features.history", "next")
	require.IsType(t, "", published["from"])
	require.IsType(t, "", published["to"])
	call(config, "diff", "features.history")
	call(config, "stats", "features.history")
	call(config, "fit", "features.history", "--vocabulary", "country=2", "--output", filepath.Join(t.TempDir(), "fitted.json"))
	call(config, "undo", "features.history", "--from", published["from"].(string), "--to", published["to"].(string))
	call(config, "stage", "features.history", more, "--again")
	call(config, "compact", "features.history", "--min-files", "2")
	call(config, "restore", "features.history", "--snapshot", published["from"].(string))
	call(config, "undo", "features.history")
	tried := call(config, "promote", "home", "origin", "--dry-run")
	promoted := call(config, "promote", "home", "origin")
	require.Equal(t, map[string]any{"origin": created["snapshot"]}, promoted["snapshots"])
	for _, columns := range []any{tried["columns"], promoted["columns"], call(config, "promote", "home", "origin")["columns"]} {
		types := map[any]any{}
		for _, c := range columns.([]any) {
			types[c.(map[string]any)["name"]] = c.(map[string]any)["type"]
		}
		require.Equal(t, map[any]any{"origin_country": "utf8", "origin_codes": "list<element: int32, nullable>"}, types)
	}
	call(config, "tables")
	call(config, "log", "features.history")
	call(config, "datasets")
	call(config, "verify", "home")
	call(config, "count", "home")
	call(config, "orphans", "features.history")
	plan := call(config, "explain", "home")["plan"].(map[string]any)
	call(config, "explain", "home", "--scale", "trainers=2,step=1s,rows=8,server_price=1")
	pin, err := json.Marshal(map[string]any{"dataset": "home", "snapshots": plan["pin"]})
	require.NoError(t, err)
	again := call(config, "explain", "--query", string(pin))["plan"].(map[string]any)
	require.Equal(t, plan["plan"], again["plan"], "a pin from a report can be read")
	call(config, "demote", "features.history", "origin_country", "--yes")
	again = call(config, "demote", "features.history", "origin_country", "--yes")
	require.Equal(t, []any{}, again["dropped"])
	call(nil, "init", "sqlite:///"+l.dir+"/catalog.db", "--output", l.dir+"/proposed.yaml")

	server := []string{"--uri", start(t, "--config", l.config, "--memory", "256MiB", "--cache-dir", filepath.Join(t.TempDir(), "cache")).uri()}
	call(server, "status")
	healthSoon(t, server[1])
	call(server, "health")
	call(server, "cache", "ls")
	call(server, "cache", "drop", "features.history")
	call(nil, "version")
	call(nil, "token", "new", "--subject", "a")
	for _, name := range jsonCommands() {
		require.True(t, ran[name], "%s was not called: %v", name, slices.Sorted(maps.Keys(ran)))
	}
}
