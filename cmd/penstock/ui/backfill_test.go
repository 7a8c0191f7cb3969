package ui_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// lake is a server with tables whose snapshots are given.
type lake struct {
	server
	tables []history.Description
	logs   map[string][]history.Entry // by table and branch, separated by "@"; the newest first
	failed map[string]error           // by table
}

func (l *lake) Tables(ctx context.Context, within string) ([]history.Description, error) {
	if err := l.called(ctx); err != nil || within == "" {
		return l.tables, err
	}
	for _, one := range l.tables {
		if one.Table == within {
			return []history.Description{one}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "there is no table %s", within)
}

func (l *lake) Log(ctx context.Context, request decode.LogCommand) (history.Log, error) {
	branch := request.Branch
	if branch == "" {
		branch = "main"
	}
	out := history.Log{Table: request.Table, Branch: branch}
	if err := l.failed[request.Table]; err != nil {
		return out, err
	}
	entries, found := l.logs[request.Table+"@"+branch]
	if !found && branch != "main" {
		return out, fault.New(fault.NotFound, "there is no branch %s", branch)
	}
	out.Snapshots = entries[:min(len(entries), request.Limit)]
	out.Older = len(entries) - len(out.Snapshots)
	for name, other := range l.logs {
		table, branch, _ := strings.Cut(name, "@")
		if table != request.Table || branch == out.Branch {
			continue
		}
		out.OtherRefs = append(out.OtherRefs, history.NamedRef{Name: branch, Snapshot: other[0].Snapshot})
	}
	return out, l.called(ctx)
}

// staged returns a snapshot of a stage at a second; without a token, another program made it.
func staged(id int64, token string) history.Entry {
	rows, files := 100*id, id
	e := history.Entry{Snapshot: id, Time: time.Unix(id, 0), Operation: "append", Writer: "spark 4.0", RowsAdded: &rows, FilesAdded: &files}
	if token != "" {
		e.Token, e.Writer = token, "penstock stage"
	}
	return e
}

func pagesOf(t *testing.T, of ui.Read) http.Handler {
	t.Helper()
	pages, err := ui.New(ui.Options{Read: of, Version: "v"})
	require.NoError(t, err)
	return pages
}

// features has branches in all states.
func features() *lake {
	base, own := staged(1, ""), staged(2, "token-2")
	undone := own
	undone.Undo = &history.Undo{Branch: "published", To: 2}
	return &lake{
		tables: []history.Description{
			{Table: "features.a", Datasets: []string{"homefeed"}},
			{Table: "features.b"},
			{Table: "features.new"},
			{Table: "features.dead"},
			{Table: "features.hidden", Withheld: true},
			{Table: "features.broken", Error: "it cannot be read"},
		},
		logs: map[string][]history.Entry{
			"features.a@main":      {own, base},
			"features.a@ready":     {staged(4, "token-4"), staged(3, "token-3"), own, base},
			"features.a@behind":    {staged(5, "token-5"), base},
			"features.a@published": {undone, base},
			"features.a@spark":     {staged(9, ""), own, base},
			"features.b@main":      {base},
			"features.b@same":      {base},
			"features.new@first":   {staged(6, "token-6")},
			"features.hidden@main": {own},
		},
		failed: map[string]error{"features.dead": fault.New(fault.Unavailable, "no %s", hostile)},
	}
}

// rowWith returns the row of a table on a page that has a text.
func rowWith(t *testing.T, body, text string) string {
	t.Helper()
	for row := range strings.SplitSeq(body, "<tr>") {
		if strings.Contains(row, text) {
			return row
		}
	}
	require.Fail(t, "no row has "+text, body)
	return ""
}

// Backfills are the branches that bear tokens, with their relation to main, and the last changes of main.
//
// spec: ui-12
func TestBackfillsOfAllTables(t *testing.T) {
	_, body := get(t, pagesOf(t, features()), "/backfills")
	for link, texts := range map[string][]string{
		"/backfills/features.a?branch=ready":     {"can be published", `<td class="n">2</td><td class="n">700</td><td class="n">7</td>`, "1970-01-01 00:00:03 UTC", "1970-01-01 00:00:04 UTC", "homefeed"},
		"/backfills/features.a?branch=behind":    {"cannot be published: it lacks 1 snapshot of main", `<td class="n">1</td><td class="n">500</td>`},
		"/backfills/features.a?branch=published": {"published: main has it", `<td class="n">1</td><td class="n">200</td>`},
		"/backfills/features.new?branch=first":   {"can be published"},
	} {
		row := rowWith(t, body, link)
		for _, text := range texts {
			require.Contains(t, row, text, link)
		}
	}
	for _, name := range []string{"spark", "same", "hidden"} {
		require.NotContains(t, body, name)
	}
	require.Less(t, strings.Index(body, "branch=first"), strings.Index(body, "branch=behind"), "the newest is first")
	require.Contains(t, rowWith(t, body[strings.Index(body, "Last changes of main"):], "token-2"), "features.a")
	require.Contains(t, body, "The branches of table <bdi>features.dead</bdi> are not known")
	require.NotContains(t, body, "<script>")

	_, body = get(t, pagesOf(t, features()), "/backfills?within=features.b")
	require.Contains(t, body, "No table that you may read has a branch")
	require.Contains(t, body, "Only tables in <bdi>features.b</bdi>")
}

// Whether main has a branch is not guessed if too many snapshots are between them.
//
// spec: ui-12
func TestBranchesFarFromMain(t *testing.T) {
	of := &lake{tables: []history.Description{{Table: "t"}}, logs: map[string][]history.Entry{"t@far": {staged(5, "far")}}}
	for id := range int64(1500) {
		of.logs["t@main"] = append(of.logs["t@main"], staged(10_000-id, "on-main"))
	}
	of.logs["t@near"] = append([]history.Entry{staged(20_000, "near")}, of.logs["t@main"][900:]...)
	_, body := get(t, pagesOf(t, of), "/backfills")
	require.Contains(t, rowWith(t, body, "branch=far"), "not known")
	require.Contains(t, rowWith(t, body, "branch=near"), "lacks 900 snapshots of main")
}

// The page of a backfill has each stage with its token, and the snapshots that it was made of.
//
// spec: ui-13
func TestABackfill(t *testing.T) {
	of := features()
	of.logs["features.a@"+hostile] = []history.Entry{staged(7, hostile), staged(1, "")}
	pages := pagesOf(t, of)
	_, body := get(t, pages, "/backfills/features.a?branch=ready")
	require.Contains(t, body, "<dd>4</dd>")
	require.Contains(t, body, "<dt>Snapshot of main</dt><dd>2</dd>")
	require.Contains(t, rowWith(t, body, "token-3"), "300 rows")
	require.NotContains(t, body, "token-2", "main has it")
	_, body = get(t, pages, "/backfills/features.new?branch=first")
	require.Contains(t, body, "<dt>Snapshot of main</dt><dd>none</dd>")
	answer, body := get(t, pages, "/backfills/features.a?branch="+url.QueryEscape(hostile))
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NotContains(t, body, "<script>")
	for path, want := range map[string]int{
		"/backfills/features.a": http.StatusBadRequest, "/backfills/features.a?branch=main": http.StatusBadRequest,
		"/backfills/features.a?branch=none": http.StatusNotFound, "/backfills/features.a?branch=spark": http.StatusNotFound, "/backfills/none?branch=x": http.StatusNotFound,
	} {
		answer, _ := get(t, pages, path)
		require.Equal(t, want, answer.StatusCode, path)
	}
}

// A viewer whom the server refuses sees no backfills.
//
// spec: ui-4
func TestBackfillsNeedRights(t *testing.T) {
	of := features()
	of.failure = fault.New(fault.Forbidden, "no")
	for _, path := range []string{"/backfills", "/backfills/features.a?branch=ready"} {
		answer, body := get(t, pagesOf(t, of), path)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, path)
		require.NotContains(t, body, "token-")
	}
}
