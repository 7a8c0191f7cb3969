package ui_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/stage"
)

// stagingLake is a lake to which pages stage rows.
type stagingLake struct {
	*changingLake
	started []ui.Stage
	state   *children.State
	stopped []string
}

func (l *stagingLake) Start(one ui.Stage) error {
	if l.state != nil && l.state.Running {
		return fault.New(fault.Conflict, "it runs")
	}
	l.started = append(l.started, one)
	l.state = &children.State{Running: true, Progress: children.Progress{Step: "sort", Counts: progress.Counts{RowsRead: 77, OfRowsRead: 1234}}}
	return nil
}

func (l *stagingLake) State(string) (ui.Stage, children.State, bool) {
	if l.state == nil {
		return ui.Stage{}, children.State{}, false
	}
	return l.started[len(l.started)-1], *l.state, true
}

func (l *stagingLake) Stop(table string) bool {
	l.stopped = append(l.stopped, table)
	return true
}

func (l *stagingLake) Memory() int64 { return 3 << 30 }

// stagingPages returns the pages of a lake that start stages.
func stagingPages(t *testing.T) (*stagingLake, http.Handler) {
	t.Helper()
	of := &stagingLake{changingLake: newChangingLake()}
	pages, err := ui.New(ui.Options{Read: of, Change: of, Stages: of, Version: "v", Session: func(r *http.Request) string { return r.Header.Get("Session") }})
	require.NoError(t, err)
	return of, pages
}

// A form stages files to a branch. The page shows how far the stage is, and its result.
//
// spec: ui-28
func TestRowsAreStaged(t *testing.T) {
	of, pages := stagingPages(t)
	_, page := get(t, pages, "/tables/features.a")
	require.Contains(t, page, `href="/stage/features.a"`)
	_, page = get(t, pages, "/stage/features.a?branch="+url.QueryEscape(hostile), "Session", "one")
	require.NotContains(t, page, "<script>")
	require.NotContains(t, page, `name="key"`)
	action, fields := formOf(t, page)
	fields.Set("files", " /data/*.parquet \r\n\r\n--evil\r\n")
	fields.Set("branch", "ready")
	fields.Set("mode", "replace")
	fields.Set("key", "only of a new table")
	require.Equal(t, http.StatusForbidden, send(pages, action, fields, func(r *http.Request) { r.Header.Del("Origin") }).StatusCode)
	require.Empty(t, of.started)
	answer := send(pages, action, fields, asItIs)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, http.StatusConflict, send(pages, action, fields, asItIs).StatusCode, "it runs")
	require.Equal(t, []ui.Stage{{Table: "features.a", Branch: "ready", Replace: true, Files: []string{"/data/*.parquet", "--evil"}}}, of.started)

	_, page = get(t, pages, answer.Header.Get("Location"), "Session", "one")
	for _, text := range []string{"A stage runs", "77 of 1,234", `data-every="2000"`} {
		require.Contains(t, page, text)
	}
	action, fields = formOf(t, page)
	require.Equal(t, "/stage/features.a/stop", action)
	require.Equal(t, http.StatusSeeOther, send(pages, action, fields, asItIs).StatusCode)
	require.Equal(t, []string{"features.a"}, of.stopped)

	for name, c := range map[string]struct {
		result stage.WriteResult
		has    string
		not    string
	}{
		"written": {stage.WriteResult{Snapshot: 5, Rows: 4321, Token: hostile}, `href="/undo/features.a?branch=ready"`, "earlier stage"},
		"existed": {stage.WriteResult{Snapshot: 5, Rows: 4321, Existed: true}, "from an earlier stage", "/undo/"},
		"broken":  {stage.WriteResult{Snapshot: 5, Rows: 4321, Readers: []stage.ReaderCheck{{Dataset: hostile, Failure: &stage.ReaderFailure{Message: "it breaks"}}}}, "it breaks", "<script>"},
		"warned":  {stage.WriteResult{Snapshot: 5, Rows: 4321, Readers: []stage.ReaderCheck{{Dataset: "home", Warning: "few match"}}}, "Dataset home: few match", "<script>"},
		"matched": {stage.WriteResult{Snapshot: 5, Rows: 4321, Readers: []stage.ReaderCheck{{Dataset: "home", Entry: "e", Rows: 1000, Matched: 900}}}, "entry e: 90% of 1,000 sampled training rows match", "<script>"},
	} {
		text, err := json.Marshal(c.result)
		require.NoError(t, err)
		of.state = &children.State{Result: text}
		_, page = get(t, pages, "/stage/features.a")
		require.Contains(t, page, "4,321", name)
		require.Contains(t, page, `href="/backfills/features.a?branch=ready"`, name)
		require.Contains(t, page, c.has, name)
		require.NotContains(t, page, c.not, name)
	}
	of.state = &children.State{Failure: "no file " + hostile, Remedy: "name another"}
	_, page = get(t, pages, "/stage/features.a", "Session", "one")
	require.Contains(t, page, "The stage has failed")
	require.Contains(t, page, "name another")
	_, fields = formOf(t, page)
	require.NotEmpty(t, fields.Get("form"), "it can be started again")
	for _, text := range []string{"/data/*.parquet\n--evil\n</textarea>", `name="branch" value="ready"`, `value="replace" checked`} {
		require.Contains(t, page, text)
	}
}

// The first rows of a table go to main, with the layout that the form names.
//
// spec: ui-28
func TestNewTablesAreStaged(t *testing.T) {
	of, pages := stagingPages(t)
	_, page := get(t, pages, "/stage/features.none?key=id&buckets=8&partition=day&partition=truncate%5B2%5D(c)&sort=id,at", "Session", "one")
	require.Contains(t, page, `name="key" value="id"`)
	require.NotContains(t, page, `name="branch"`)
	require.Contains(t, page, "day\ntruncate[2](c)\n</textarea>")
	action, fields := formOf(t, page)
	fields.Set("sql", "SELECT 1 ")
	fields.Set("key", "id")
	fields.Set("buckets", "8")
	fields.Set("partition", "day\r\ntruncate[2](c)\r\n")
	fields.Set("sort", "id,at")
	require.Equal(t, http.StatusSeeOther, send(pages, action, fields, asItIs).StatusCode)
	require.Equal(t, []ui.Stage{{Table: "features.none", SQL: "SELECT 1", Key: "id", Buckets: "8", Sort: "id,at", Partition: []string{"day", "truncate[2](c)"}}}, of.started)
}

// Forms without rows, with two kinds of rows, or for main start nothing.
//
// spec: ui-28
func TestStagesThatAreRefused(t *testing.T) {
	of, pages := stagingPages(t)
	_, page := get(t, pages, "/stage/features.a", "Session", "one")
	action, fields := formOf(t, page)
	for name, c := range map[string]url.Values{
		"no rows":        {"branch": {"b"}, "files": {" \n"}},
		"a file of SQL":  {"branch": {"b"}, "sql": {"@/etc/passwd"}},
		"standard input": {"branch": {"b"}, "sql": {"-"}},
		"no character":   {"branch": {"b\x00"}, "files": {"a"}},
		"two kinds":      {"branch": {"b"}, "files": {"a"}, "sql": {"SELECT 1"}},
		"too many files": {"branch": {"b"}, "files": {strings.Repeat("a\n", 101)}},
		"no branch":      {"files": {"a"}},
		"main":           {"branch": {"main"}, "files": {"a"}},
	} {
		c["form"] = fields["form"]
		require.Equal(t, http.StatusBadRequest, send(pages, action, c, asItIs).StatusCode, name)
	}
	require.Empty(t, of.started)
	other := changingPages(t, of.changingLake, "") // of a server
	_, page = get(t, other, "/tables/features.a")
	require.NotContains(t, page, "/stage/")
	require.Equal(t, http.StatusNotFound, send(other, action, fields, asItIs).StatusCode)
}
