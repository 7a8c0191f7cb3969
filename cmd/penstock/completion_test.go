package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// completed returns the completions of the last word of a command line.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	patient := process{environment: environment{lookup: time.Minute}} // other tests may use all cores for a second
	got := runWith(t, patient, append([]string{cobra.ShellCompNoDescRequestCmd}, args...)...)
	require.Zero(t, got.code, got.stderr)
	var out []string
	for line := range strings.Lines(got.stdout) {
		if !strings.HasPrefix(line, ":") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// The shell offers the names of datasets and tables, and the values of flags.
//
// spec: output-10
func TestNamesAreCompleted(t *testing.T) {
	l := readLake(t)
	require.Equal(t, []string{"gone", "home", "large"}, slices.Sorted(slices.Values(completed(t, "cat", "--config", l.config, ""))))
	require.Equal(t, []string{"home"}, completed(t, "verify", "--config", l.config, "ho"))
	require.Equal(t, []string{"features.history", "ml.impressions", "ml.large"}, completed(t, "log", "--config", l.config, ""))
	require.Equal(t, []string{"ml.impressions", "ml.large"}, completed(t, "tables", "--config", l.config, "ml."))
	require.Equal(t, []string{"ml.impressions"}, completed(t, "stage", "features.new", "--config", l.config, "--like", "ml.i"))
	require.Empty(t, completed(t, "log", "--config", l.config, "ml.large", ""), "there is one table")
	require.Equal(t, []string{"append", "replace"}, completed(t, "stage", "--mode", ""))
	require.Contains(t, completed(t, "cat", "--format", ""), "jsonl")
	require.Equal(t, []string{"json"}, completed(t, "compact", "--progress", "j"))
	require.Equal(t, []string{"arrow", "csv", "jsonl"}, completed(t, "stage", "--input-format", ""))
	require.Equal(t, []string{"shuffled", "stored"}, slices.Sorted(slices.Values(completed(t, "explain", "--order", "s"))))
	require.Equal(t, []string{"spark"}, completed(t, "promote", "--print", ""))
	require.Empty(t, completed(t, "cat", ""), "without a source")
	require.Empty(t, completed(t, "cat", "--config", l.config+".gone", ""))
	require.Empty(t, completed(t, "log", "--uri", "grpc://127.0.0.1:1", ""))

	server := start(t, "--config", l.config, "--memory", "256MiB")
	require.Contains(t, completed(t, "cat", "--uri", server.uri(), "h"), "home")
	require.Contains(t, completed(t, "log", "--uri", server.uri(), "ml."), "ml.large")
	require.Contains(t, run(t, "completion", "bash").stdout, "__start_penstock")
	require.Contains(t, run(t, "--help").stdout, "completion")
}

// The shell offers the names of entries, columns, branches and tags, with a config file and with a
// server.
//
// spec: output-10
func TestNamesInsideTablesAndDatasetsAreCompleted(t *testing.T) {
	l, _ := stagedHistory(t)
	l.config = l.file(t, "entries.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  home:
    training: {table: features.history}
    key: [req_id]
    staging:
    - {table: features.origin, prefix: origin_}
    - {table: features.origin, name: second, prefix: second_}
`)
	origin := l.parquetFile(t, "origin.parquet", `[{"req_id": 1, "country": "AT"}]`)
	for _, args := range [][]string{
		{"stage", "features.origin", origin, "--key", "req_id", "--buckets", "1"},
		{"promote", "home", "origin"},
	} {
		got := run(t, append(args, "--config", l.config)...)
		require.Zero(t, got.code, got.stderr)
	}
	server := start(t, "--config", l.config, "--memory", "256MiB")
	for _, source := range [][]string{{"--config", l.config}, {"--uri", server.uri()}} {
		for _, c := range []struct {
			args, want []string
		}{
			{[]string{"promote", "home", ""}, []string{"origin", "second"}},
			{[]string{"promote", "home", "origin", ""}, []string{"second"}},
			{[]string{"promote", "other", ""}, nil},
			{[]string{"demote", "features.history", ""}, []string{"origin_country"}},
			{[]string{"demote", "features.origin", ""}, nil},
			{[]string{"publish", "features.history", ""}, []string{"candidate", "main"}},
			{[]string{"publish", "features.history", "candidate", ""}, nil},
			{[]string{"stage", "features.history", "a.parquet", "--branch", "c"}, []string{"candidate"}},
			{[]string{"undo", "features.history", "--branch", ""}, []string{"candidate", "main"}},
			{[]string{"log", "features.history", "--branch", "m"}, []string{"main"}},
			{[]string{"log", "--branch", ""}, nil},
			{[]string{"stage", "features.new", "--from-table", "features.history", "--from-ref", "c"}, []string{"candidate"}},
			{[]string{"stage", "features.new", "--from-table", "features.history", "--columns", ""}, []string{"req_id", "country", "origin_country"}},
			{[]string{"compact", "features.history", "--key", "req_id,"}, []string{"req_id,country", "req_id,origin_country"}},
			{[]string{"stats", "features.history", "--columns", "c"}, []string{"country"}},
			{[]string{"cat", "home", "--columns", "country,s"}, []string{"country,second_country"}},
			{[]string{"cat", "nothing", "--columns", ""}, nil},
		} {
			args := slices.Concat(c.args[:1], source, c.args[1:])
			require.ElementsMatch(t, c.want, completed(t, args...), "%v", args)
		}
	}
	require.Equal(t, []string{"origin_country"}, completed(t, "init", "backfill", "--config", l.config, "home", "--replaces", "o"))
}

// Every command whose result programs may use has the flag --json. The other commands serve, print
// rows or scripts, or only have subcommands.
//
// spec: output-11
func TestCommandsPrintJSON(t *testing.T) {
	others := []string{"serve", "receive", "ui", "cat", "backfill", "cache", "token", "completion"}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		flag := c.Flags().Lookup("json")
		require.Equal(t, !slices.Contains(others, c.Name()), flag != nil, c.CommandPath())
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	for _, c := range (process{}).commands() {
		visit(c)
	}
	for _, c := range [][]string{{"version", "--json"}, {"token", "new", "--subject", "a", "--json"}} {
		got := run(t, c...)
		require.Zero(t, got.code, got.stderr)
		require.True(t, strings.HasPrefix(got.stdout, "{\n  \""), got.stdout)
		require.Empty(t, got.stderr)
	}
	server := start(t, "--config", readLake(t).config, "--memory", "256MiB")
	healthSoon(t, server.uri())
	require.JSONEq(t, `{"status": "serving"}`, run(t, "health", "--uri", server.uri(), "--json").stdout)
}
