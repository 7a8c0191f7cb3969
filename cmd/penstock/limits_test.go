package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// limitsOfPrice are limits that the rows of days keep, apart from days with other prices.
const limitsOfPrice = "columns: {price: {nulls: 0.05, max: 10, change: {mean: 0.5}}}"

// pricesOf returns JSON lines with rows of days, 200 for each, whose prices are from 1 to 10, or equal to the price of the day.
func pricesOf(first, last int, prices map[int]string) string {
	var out strings.Builder
	for day := first; day <= last; day++ {
		for i := range 200 {
			price, ok := prices[day]
			if !ok {
				price = strconv.Itoa(1 + i%10)
			}
			fmt.Fprintf(&out, "{\"req_id\": %d, \"day\": \"2026-10-%02d\", \"price\": %s}\n", day*1000+i, day, price)
		}
	}
	return out.String()
}

// limitedLake returns a folder in which main of features.history has four days, and its branch candidate two more days, the last of
// which has other prices. The dataset home, which reads main, and the dataset trial, which reads the branch, have limits.
func limitedLake(t *testing.T, price string) lake {
	t.Helper()
	l := lake{dir: t.TempDir()}
	l.config = l.file(t, "penstock.yaml", fmt.Sprintf(`
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://%s", writes: {namespaces: [features]}}
datasets:
  home:
    training: {table: features.history}
    key: [req_id]
    staging: [{table: features.history, name: again, columns: [{column: price, name: p}], limits: {%s}}]
  trial:
    training: {table: features.history}
    key: [req_id]
    staging: [{table: features.history, name: again, ref: candidate, columns: [{column: price, name: p}], limits: {%s}}]
`, l.dir, limitsOfPrice, limitsOfPrice))
	stage := func(name, rows string, args ...string) {
		args = append(args, "--schema", "req_id: long, day: date, price: double", "--no-check", "--config", l.config)
		got := run(t, append([]string{"stage", "features.history", l.file(t, name, rows)}, args...)...)
		require.Zero(t, got.code, got.stderr)
	}
	stage("main.jsonl", pricesOf(1, 4, nil), "--key", "req_id", "--buckets", "1", "--partition", "day")
	stage("candidate.jsonl", pricesOf(5, 6, map[int]string{6: price}), "--branch", "candidate")
	return l
}

// verify checks the limits of a dataset, in its own process and on a server.
//
// spec: stats-80, stats-83, stats-87
func TestVerifyChecksLimits(t *testing.T) {
	l := limitedLake(t, "99")
	server := start(t, "--config", l.config)
	for _, from := range [][]string{{"--config", l.config}, {"--uri", server.uri()}} {
		got := run(t, append([]string{"verify", "home"}, from...)...)
		require.Zero(t, got.code, got.stdout+got.stderr)
		require.Contains(t, got.stdout, "  limits of 1 column, in all rows and by day in 4 partitions: 0 broken\n")
		got = run(t, append([]string{"verify", "trial"}, from...)...)
		require.Equal(t, exitFindings, got.code, got.stdout+got.stderr)
		require.Contains(t, got.stdout, "  limits, again\n    column price, partition 2026-10-06: the greatest number is 99 (limit 10)\n")
		require.Regexp(t, `column price, partition 2026-10-06: the mean, cut at quantiles of the base, is 10, and was 5.5: a change by \+1.567 standard deviations`, got.stdout)
		require.Regexp(t, `limits of 1 column, in all rows and by day in 6 partitions, compared with snapshot \d+: \d broken`, got.stdout)
		got = run(t, append([]string{"verify", "trial", "--json"}, from...)...)
		require.Contains(t, got.stdout, `"measure": "max"`)
	}
}

// publish refuses a branch that breaks a limit, and names column and partition. main stays. With --no-check, it moves main.
//
// spec: stats-90, stats-91, stats-94, stage-194
func TestPublishChecksLimits(t *testing.T) {
	for _, price := range []string{"99", "null"} {
		l := limitedLake(t, price)
		server := start(t, "--config", l.config)
		main := loggedBy(t, "--config", l.config).Snapshots[0].Snapshot
		for _, from := range [][]string{{"--config", l.config}, {"--uri", server.uri()}} {
			got := run(t, append([]string{"publish", "features.history", "candidate"}, from...)...)
			require.Equal(t, exitFailure, got.code, got.stdout)
			require.Contains(t, got.stderr, "branch candidate breaks limits of datasets: dataset home, entry again, column price, partition 2026-10-06: ")
			require.Contains(t, got.stderr, "dataset trial, entry again, column price")
			require.Contains(t, got.stderr, "publish with --no-check")
			require.Equal(t, main, loggedBy(t, "--config", l.config).Snapshots[0].Snapshot)
		}
		got := run(t, "publish", "features.history", "candidate", "--no-check", "--config", l.config)
		require.Zero(t, got.code, got.stderr)
		require.NotContains(t, got.stdout, "limits")
		require.NotEqual(t, main, loggedBy(t, "--config", l.config).Snapshots[0].Snapshot)
	}
	l := limitedLake(t, "5.5")
	main := loggedBy(t, "--config", l.config).Snapshots[0].Snapshot
	got := run(t, "publish", "features.history", "candidate", "--dry-run", "--config", l.config)
	require.Contains(t, got.stdout, "dataset home, entry again: limits of 1 column would be checked\ndataset trial, entry again: limits of 1 column would be checked\n")
	require.Equal(t, main, loggedBy(t, "--config", l.config).Snapshots[0].Snapshot)
	got = run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Regexp(t, `dataset home, entry again: limits of 1 column are kept, in all rows and by day in 6 partitions, compared with snapshot \d+ of main\n`, got.stdout)
}

// A client that may publish, but not read a dataset or all of its table, is told only that a limit is broken.
//
// spec: stats-93
func TestPublishHidesValuesOfOthers(t *testing.T) {
	l := limitedLake(t, "99")
	for name, rule := range map[string]string{
		"other datasets":   `read: [none], write: ["*"], allow: [publish]`,
		"withheld columns": `read: ["*"], write: ["*"], allow: [publish], tables: {features.history: {withheld: [price]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			tokens := filepath.Join(t.TempDir(), "server.tokens")
			writer := issued(t, tokens, "writer")
			server := start(t, "--config", l.config, "--tokens", tokens, "--policy", policyFile(t, "rules:\n- {subjects: [writer], "+rule+"}\n"))
			got := run(t, "publish", "features.history", "candidate", "--uri", server.uri(), "--token-file", writer)
			require.Equal(t, exitFailure, got.code, got.stdout)
			require.Contains(t, got.stderr, "branch candidate breaks limits of datasets: limits of a dataset of the server")
			dry := run(t, "publish", "features.history", "candidate", "--dry-run", "--uri", server.uri(), "--token-file", writer)
			require.Zero(t, dry.code, dry.stderr)
			for _, hidden := range []string{"99", "home", "2026-10-06", "price"} {
				require.NotContains(t, got.stderr, hidden)
				require.NotContains(t, dry.stdout, "dataset "+hidden)
			}
		})
	}
}

// publish refuses a branch of which too few rows match, and names the dataset. A branch whose rows match is published.
//
// spec: stats-105
func TestPublishChecksMatchRates(t *testing.T) {
	l := newWrittenLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, min_match: 0.9}]
  trial:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, ref: candidate, min_match: 0.1}]
  other:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, columns: [none], min_match: 0.9}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 900, 901)})
	stage := func(rows string) {
		got := run(t, append(csvStage(t, l.lake, "h", rows), "--branch", "candidate", "--no-check", "--config", l.config)...)
		require.Zero(t, got.code, got.stderr)
	}
	publish := func(args ...string) ran {
		return run(t, append([]string{"publish", "features.h", "candidate", "--config", l.config}, args...)...)
	}
	stage(rowsOf("f", 0, 100))
	got := publish()
	require.Equal(t, exitFailure, got.code, got.stdout)
	require.Contains(t, got.stderr, "branch candidate breaks limits of datasets: dataset clicks, entry h: 50% of 200 sampled rows match, and min_match is 90%")
	require.NotContains(t, got.stderr, "trial")
	tokens := filepath.Join(t.TempDir(), "server.tokens")
	writer := issued(t, tokens, "writer")
	server := start(t, "--config", l.config, "--tokens", tokens, "--policy", policyFile(t, "rules:\n- {subjects: [writer], read: [none], write: [\"*\"], allow: [publish]}\n"))
	got = run(t, "publish", "features.h", "candidate", "--uri", server.uri(), "--token-file", writer)
	require.Contains(t, got.stderr, "breaks limits of datasets: min_match of a dataset of the server")
	require.NotContains(t, got.stderr, "clicks")
	require.NotContains(t, got.stderr, "50%")
	stage(rowsOf("f", 100, 185)) // 92.5%
	got = publish()
	require.Zero(t, got.code, got.stderr)
	stage(rowsOf("f", 500, 501))
	require.Zero(t, publish("--no-check").code)
}
