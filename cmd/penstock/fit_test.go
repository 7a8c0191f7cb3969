package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fitted"
)

// Lists are fitted to tables, and to datasets with the columns of their entries.
//
// spec: stats-103, stats-104
func TestListsAreFitted(t *testing.T) {
	l := readLake(t)
	file := filepath.Join(t.TempDir(), "fitted.json")
	got := run(t, "fit", "home", "--quantiles", "score=2", "--vocabulary", "country=5", "--where", "request_id > 2", "--output", file, "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	content := must(os.ReadFile(file)) //nolint:gosec // a test's own file
	require.Equal(t, "2 lists of 6 rows\ndigest "+fitted.Digest(content)+"\n\nIn a dataset of the config file, these lines let expressions use the lists:\n\n    fitted:\n"+
		"      score_bounds: {file: "+file+", digest: "+fitted.Digest(content)+", column: score, kind: quantiles}\n"+
		"      country_vocabulary: {file: "+file+", digest: "+fitted.Digest(content)+", column: country, kind: vocabulary}\n", got.stdout)
	var out fitted.File
	require.NoError(t, json.Unmarshal(content, &out))
	require.Equal(t, int64(6), out.Rows)
	require.Equal(t, "request_id > 2", out.Filter)
	require.Regexp(t, `"training": ?\{\s*"uuid": ?"[^"]+",\s*"schema": ?0,\s*"snapshot": ?"\d+"`, string(content))
	require.Contains(t, string(content), `"history"`)
	require.Equal(t, []json.RawMessage{json.RawMessage("0.5")}, out.Lists[0].Values)
	require.Equal(t, []json.RawMessage{json.RawMessage(`"CH"`), json.RawMessage(`"DE"`), json.RawMessage(`"null"`)}, out.Lists[1].Values)
	require.Equal(t, []int64{2, 1, 1}, out.Lists[1].Counts)

	other := filepath.Join(t.TempDir(), "fitted.json")
	got = run(t, "fit", "ml.impressions", "--vocabulary", "item=1", "--output", other, "--json", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	content2 := must(os.ReadFile(other)) //nolint:gosec // a test's own file
	require.Contains(t, string(content2), `"distinct": 6`)
	require.JSONEq(t, `{"digest": "`+fitted.Digest(content2)+`", "rows": 7, "lists": 1}`, got.stdout)

	for _, args := range [][]string{{"--quantiles", "nothing=4"}, {"--quantiles", "item=4"}, {"--vocabulary", "score=4"}, {"--quantiles", "score=4", "--where", "score > 1e20"}} {
		got := run(t, append([]string{"fit", "ml.impressions", "--output", file, "--config", l.config}, args...)...)
		require.Equal(t, exitFailure, got.code, args)
	}
	require.Equal(t, content, must(os.ReadFile(file))) //nolint:gosec // a test's own file
	got = run(t, "fit", "home", "--quantiles", "scor=4", "--vocabulary", "nope=4", "--output", file, "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "plan dataset home: 2 faults\n  columns[0]: the dataset has no column \"scor\" (did you mean \"score\"?)\n  columns[1]: the dataset has no column \"nope\"\n")
	for _, args := range [][]string{{}, {"--quantiles", "score=4"}, {"--quantiles", "score=1"}, {"--quantiles", "score"}, {"--vocabulary", "item=0"}, {"--vocabulary", "item=1", "--vocabulary", "item=2"}, {"--vocabulary", "item=1", "--min-count", "0"}} {
		got := run(t, append([]string{"fit", "ml.impressions", "--config", l.config}, args...)...)
		require.Equal(t, exitUsage, got.code, args)
	}
}
