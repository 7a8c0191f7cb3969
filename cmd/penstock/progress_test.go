package main

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/bar"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
)

// progressLines parses the JSON lines of a text, and skips the others.
func progressLines(t *testing.T, text string) []progressLine {
	t.Helper()
	var out []progressLine
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var one progressLine
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&one), line)
		require.False(t, one.Time.IsZero())
		require.GreaterOrEqual(t, one.Seconds, 0.0)
		out = append(out, one)
	}
	return out
}

// stepsOf returns the steps of the lines without consecutive repeats.
func stepsOf(lines []progressLine) []string {
	var out []string
	for _, l := range lines {
		if len(out) == 0 || out[len(out)-1] != l.Step {
			out = append(out, l.Step)
		}
	}
	return out
}

// spec: stage-80
func TestProgressAsJSON(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	call := func(code int, args ...string) ([]progressLine, ran) {
		got := run(t, append(args, "--config", l.config, "--progress", "json")...)
		require.Equal(t, code, got.code, got.stderr)
		lines := progressLines(t, got.stderr)
		for _, one := range lines {
			require.Equal(t, args[0], one.Command)
			require.Equal(t, args[1], one.Table)
		}
		return lines, got
	}
	lines, first := call(exitOK, "stage", "features.history", a, "--key", "req_id", "--buckets", "1")
	require.Equal(t, []string{"read", "write", "commit", stepDone}, stepsOf(lines))
	require.Len(t, lines, strings.Count(first.stderr, "\n"), "a line that is not JSON: %s", first.stderr)
	last := lines[len(lines)-2]
	require.Equal(t, progress.Counts{RowsRead: 2, OfRowsRead: 2, RowsWritten: 2, OfRowsWritten: 2, Files: 1, Bytes: last.Bytes}, last.Counts)
	require.Positive(t, last.Bytes)

	_, second := call(exitOK, "stage", "features.history", a, "--again")
	id := func(got ran) string { return regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(got.stdout)[1] }
	lines, _ = call(exitOK, "undo", "features.history", "--from", id(first), "--to", id(second))
	require.Equal(t, []string{"move", stepDone}, stepsOf(lines))
	lines, _ = call(exitFailure, "publish", "features.history", "candidate")
	require.Equal(t, []string{"move", stepFailed}, stepsOf(lines))
	failure := lines[len(lines)-1].Failure
	require.NotNil(t, failure)
	require.Equal(t, fault.NotFound.String(), failure.Kind)
	require.Contains(t, failure.Message, "candidate")
	require.NotEmpty(t, failure.Remedy)

	folder := filepath.Dir(filepath.Dir(globOne(t, l.dir+"/*/*/metadata/00000-*.metadata.json", l.dir+"/*/metadata/00000-*.metadata.json")))
	leave(t, folder, "data/penstock-0123456789abcdef-1.parquet", "data/penstock-0123456789abcdef-2.parquet")
	age(t, folder, 4)
	lines, _ = call(exitOK, "orphans", "features.history", "--remove")
	require.Equal(t, []string{"search", "remove", stepDone}, stepsOf(lines))
	require.Equal(t, progress.Counts{Files: 2, OfFiles: 2, Bytes: 8, OfBytes: 8}, lines[len(lines)-2].Counts)

	wrong := run(t, "stage", "features.history", a, "--progress", "yaml")
	require.Equal(t, exitUsage, wrong.code)
	require.Contains(t, wrong.stderr, `--progress "yaml" is neither text nor json`)
}

// spec: stage-80
func TestProgressOfRewritesAsJSON(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	call := func(code int, args ...string) []progressLine {
		got := run(t, append(args, "--config", l.config, "--progress", "json")...)
		require.Equal(t, code, got.code, got.stderr)
		lines := progressLines(t, got.stderr)
		require.Equal(t, args[0], lines[0].Command)
		return lines
	}
	first := run(t, "stage", "features.history", a, "--key", "req_id", "--buckets", "1", "--config", l.config)
	snapshot := regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(first.stdout)[1]
	call(exitOK, "stage", "features.history", a, "--again")

	lines := call(exitOK, "compact", "features.history", "--min-files", "2")
	require.Equal(t, []string{"rewrite", stepDone}, stepsOf(lines))
	last := lines[len(lines)-2]
	require.Equal(t, progress.Counts{RowsRead: 4, OfRowsRead: 4, RowsWritten: 4, OfRowsWritten: 4, OfFiles: 2, Bytes: last.Bytes}, last.Counts)
	require.Equal(t, []string{stepDone}, stepsOf(call(exitOK, "compact", "features.history")))

	lines = call(exitOK, "restore", "features.history", "--snapshot", snapshot)
	require.Equal(t, []string{"write", stepDone}, stepsOf(lines))
	last = lines[len(lines)-2]
	require.Equal(t, progress.Counts{RowsWritten: 2, OfRowsWritten: 2, Files: 1, Bytes: last.Bytes}, last.Counts)
	require.Positive(t, last.Bytes)

	require.Equal(t, []string{"move", stepFailed}, stepsOf(call(exitFailure, "demote", "features.history", "country", "--yes")))
	lines = call(exitFailure, "promote", "unknown", "country")
	require.Equal(t, fault.NotFound.String(), lines[len(lines)-1].Failure.Kind)
}

// spec: stage-80
func TestProgressAsText(t *testing.T) {
	var said bytes.Buffer
	now := time.Unix(1_000_000, 0)
	g, err := process{terminal: terminal{stderr: &said}, environment: environment{clock: func() time.Time { return now }}}.progressOf("", "stage", "features.a")
	require.NoError(t, err)
	g.step("write")
	g.at(progress.Counts{RowsRead: 1})
	require.Empty(t, said.String())
	now = now.Add(progressEvery)
	g.at(progress.Counts{RowsRead: 7, OfRowsRead: 9, RowsWritten: 3, Files: 1, OfFiles: 2, Bytes: 3 << 30})
	g.at(progress.Counts{RowsRead: 8})
	uncertain := tablecommit.AsUncertain(fault.New(fault.Unavailable, "no answer"))
	require.Equal(t, uncertain, g.end(uncertain))
	require.Equal(t, "table features.a, write: rows read 7 of 9, rows written 3, files 1 of 2, 3.0 GiB\n", said.String())

	said.Reset()
	g, err = process{terminal: terminal{stderr: &said}, environment: environment{clock: func() time.Time { return now }}}.progressOf("json", "stage", "features.a")
	require.NoError(t, err)
	require.ErrorIs(t, g.end(uncertain), uncertain)
	require.True(t, progressLines(t, said.String())[0].Failure.Uncertain)
}

// On a terminal, commands draw a bar, and their output erases it.
//
// spec: change-12
func TestBarsOnATerminal(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	output := filepath.Join(t.TempDir(), "rows.csv")
	for _, args := range [][]string{
		{"stage", "features.history", a, "--key", "req_id", "--buckets", "1"},
		{"compact", "features.history"},
		{"verify", "history"},
		{"cat", "history", "--output", output},
	} {
		args = append(args, "--config", l.config)
		plain := run(t, args...)
		require.Equal(t, exitOK, plain.code, plain.stderr)
		require.NotContains(t, plain.stderr, "\r")

		var screen bytes.Buffer
		p := process{terminal: terminal{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}, environment: environment{clock: time.Now}}
		p.terminal = p.withBars(bar.NewLine(&screen, func() int { return 0 }))
		require.Equal(t, exitOK, p.run(t.Context(), args))
		require.NotContains(t, screen.String(), "\n", "a bar is one line")
	}
}

// A question is not overwritten by the bar, which returns after the answer.
//
// spec: change-12
func TestBarsWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		p := process{terminal: terminal{stdout: &screen, stderr: &screen}, environment: environment{clock: time.Now}}
		p.terminal = p.withBars(bar.NewLine(&screen, func() int { return 0 }))
		shown := func() string {
			time.Sleep(3 * time.Second)
			synctest.Wait()
			text := screen.String()
			screen.Reset()
			return text
		}
		g, err := p.progressOf("", "demote", "features.a")
		require.NoError(t, err)
		require.Contains(t, shown(), "demote features.a")
		resume := g.pause()
		p.note("Go on? [y/N] ")
		require.True(t, strings.HasSuffix(shown(), "Go on? [y/N] "))
		require.Empty(t, shown())
		resume()
		require.Contains(t, shown(), "demote features.a")
		require.NoError(t, g.end(nil))
	})
}

// spec: change-12
func TestBarsShowWhatIsKnown(t *testing.T) {
	for _, one := range []struct {
		counts     progress.Counts
		step       string
		done, all  int64
		unit, more string
	}{
		{progress.Counts{RowsRead: 3, OfRowsRead: 8}, "read", 3, 8, "rows", ""},
		{progress.Counts{RowsRead: 3}, "read", 3, 0, "rows", ""},
		{progress.Counts{RowsRead: 8, OfRowsRead: 8, RowsWritten: 2, OfRowsWritten: 6, Bytes: 1024}, "write", 2, 6, "rows", "1.0 KiB"},
		{progress.Counts{RowsRead: 8, OfRowsRead: 8, RowsWritten: 2, OfRowsWritten: 6, Files: 1, OfFiles: 4}, "rewrite", 10, 14, "rows", ""},
		{progress.Counts{RowsWritten: 7, Files: 1, OfFiles: 4, Bytes: 2048}, "rewrite", 1, 4, "files", "2.0 KiB"},
		{progress.Counts{Bytes: 1, OfBytes: 4}, "remove", 1, 4, "bytes", ""},
	} {
		got := progressLine{Command: "stage", Table: "a.b", Step: one.step, Counts: one.counts}.state()
		require.Equal(t, bar.State{Title: "stage a.b", Step: one.step, Done: one.done, All: one.all, Unit: one.unit, Detail: one.more}, got)
	}
}

// Until all files are open, the total number of rows is an estimate.
func TestRowsOfInputs(t *testing.T) {
	var r inputRows
	require.Zero(t, r.all())
	r.add(10, 3)
	require.EqualValues(t, 40, r.all())
	r.add(30, 2)
	require.EqualValues(t, 80, r.all())
	r.add(5, 0)
	require.EqualValues(t, 45, r.all())
}
