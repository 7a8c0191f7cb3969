package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The script of a feature is printed for a dataset or a table, in full or in part. The printed
// dataset is valid in a config file. The catalog does not change.
//
// spec: backfill-5, backfill-10
func TestBackfill(t *testing.T) {
	l := readLake(t)
	before := must(os.ReadFile(filepath.Join(l.dir, "catalog.db")))
	feature := []string{"--config", l.config, "--table", "features.ctr", "--column", "ctr:float", "--column", "`odd: name`:list<long>"}
	all := run(t, append([]string{"init", "backfill", "home"}, feature...)...)
	require.Equal(t, exitOK, all.code, all.stderr)
	require.Contains(t, all.stdout, "PARTITIONED BY (bucket(2, `request_id`))")
	require.Contains(t, all.stdout, "-- datasets:\n--   home:\n")
	sql := run(t, append([]string{"init", "backfill", "home", "--print", "sql"}, feature...)...)
	yaml := run(t, append([]string{"init", "backfill", "home", "--print", "yaml"}, feature...)...)
	require.True(t, strings.HasPrefix(all.stdout, sql.stdout))
	require.NotContains(t, sql.stdout, "datasets:")
	require.Equal(t, all.stdout, sql.stdout+"\n-- "+strings.ReplaceAll(strings.TrimSuffix(yaml.stdout, "\n"), "\n", "\n-- ")+"\n")

	removed := run(t, "init", "backfill", "home", "--config", l.config, "--removes", "last", "--print", "yaml")
	require.Equal(t, exitOK, removed.code, removed.stderr)
	file := l.file(t, "removed.yaml", "catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\"}\n"+removed.stdout)
	rows := run(t, "cat", "home", "--config", file, "--format", "csv", "--columns", "request_id,country")
	require.Equal(t, rows.stdout, run(t, "cat", "home", "--config", l.config, "--format", "csv", "--columns", "request_id,country").stdout)
	require.Contains(t, run(t, "cat", "home", "--config", file, "--columns", "last").stderr, `has no column "last"`)

	table := run(t, "init", "backfill", "ml.large", "--config", l.config, "--table", "default.features.v", "--column", "v:int", "--buckets", "4", "--spark-catalog", "lake")
	require.Equal(t, exitOK, table.code, table.stderr)
	require.Contains(t, table.stdout, "CREATE TABLE `lake`.`features`.`v` (")
	require.Contains(t, table.stdout, "bucket(4, `request_id`)")
	require.Contains(t, table.stdout, "--   ml_large:\n", "dataset large is another")
	require.Equal(t, before, must(os.ReadFile(filepath.Join(l.dir, "catalog.db"))))
}

// The command refuses wrong usage, missing tables and datasets, and a staging table that already
// exists.
//
// spec: backfill-10
func TestBackfillsThatCannotBePrinted(t *testing.T) {
	l := readLake(t)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no dataset":        {[]string{}, exitUsage, "needs one DATASET or TABLE, not 0"},
		"two":               {[]string{"home", "large"}, exitUsage, "not 2"},
		"no column":         {[]string{"home", "--table", "features.v"}, exitUsage, "--column NAME:TYPE"},
		"both":              {[]string{"home", "--removes", "last", "--buckets", "2"}, exitUsage, "--removes cannot be combined with --buckets"},
		"two for one":       {[]string{"home", "--table", "features.v", "--column", "a:int", "--column", "b:int", "--replaces", "last"}, exitUsage, "--replaces takes one --column"},
		"a form":            {[]string{"home", "--print", "json", "--removes", "last"}, exitUsage, "want sql, yaml or all"},
		"a type":            {[]string{"home", "--table", "features.v", "--column", "v:number"}, exitFailure, `no type "number"`},
		"an unknown one":    {[]string{"hme", "--removes", "last"}, exitFailure, "did you mean \"home\"?"},
		"an unknown table":  {[]string{"ml.imp", "--table", "features.v", "--column", "v:int"}, exitFailure, "ml.imp"},
		"a table that is":   {[]string{"home", "--table", "features.history", "--column", "v:int"}, exitFailure, "table features.history already exists"},
		"no namespace":      {[]string{"home", "--table", "v", "--column", "v:int"}, exitFailure, "has no namespace"},
		"a dataset's fault": {[]string{"gone", "--removes", "x"}, exitFailure, "impresions"},
		"a column":          {[]string{"home", "--removes", "lst"}, exitFailure, "did you mean \"last\"?"},
	} {
		got := run(t, append([]string{"init", "backfill", "--config", l.config}, c.args...)...)
		require.Equal(t, c.code, got.code, name+got.stderr)
		require.Contains(t, got.stderr, c.says, name)
		require.Empty(t, got.stdout, name)
	}
	require.Contains(t, run(t, "init", "backfill", "home", "--removes", "last").stderr, "--config FILE")
	named := l.file(t, "named.yaml", "catalogs:\n  a: {type: sql, uri: \"sqlite:///catalog.db\", name: default}\n  b: {type: sql, uri: \"sqlite:///catalog.db\", name: default}\n"+
		"datasets:\n  home: {training: {table: a.ml.impressions}, key: [request_id]}\n")
	got := run(t, "init", "backfill", "home", "--config", named, "--table", "features.v", "--column", "v:int")
	require.Contains(t, got.stderr, "does not name a catalog")
	got = run(t, "init", "backfill", "home", "--config", named, "--table", "b.features.v", "--column", "v:int")
	require.Equal(t, exitOK, got.code, got.stderr)
}
