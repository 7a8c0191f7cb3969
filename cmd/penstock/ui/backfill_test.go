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
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan/coverage"
	"github.com/penstock/penstock/loader/verify"
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

func pagesOf(t *testing.T, of interface {
	ui.Read
	ui.Count
	ui.Propose
},
) http.Handler {
	t.Helper()
	pages, err := ui.New(ui.Options{Read: of, Count: of, Propose: of, Version: "v"})
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
	require.Contains(t, body, "The branches of table <bdi>features.dead</bdi> cannot be listed")
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

// Coverage counts 3 days of 2 buckets, the second of which has no staged row of features.a, and the third one bucket.
func (s *server) Coverage(ctx context.Context, query []byte) (coverage.Coverage, error) {
	s.queries = append(s.queries, string(query))
	name := "a"
	if strings.Contains(string(query), `"with"`) {
		name = "penstock_backfill"
	}
	entry := coverage.Entry{
		Name: name, Table: "features.a", Rows: 70, Joined: coverage.Grid{{30, 20}, {0, 0}, {20, 0}}, Empty: []string{hostile}, EmptyParts: 1, EmptyRows: 100, Gaps: 1,
	}
	if name != "a" {
		entry.Table = "features.new"
	}
	return coverage.Coverage{Axes: axes(), Table: "ml.train", Training: coverage.Grid{{50, 50}, {50, 50}, {50, 50}}, Staging: []coverage.Entry{{Name: "other", Table: "features.other"}, entry}}, s.called(ctx)
}

func axes() coverage.Axes {
	return coverage.Axes{
		Partition: "day", Parts: []coverage.Part{{From: "2026-11-01", To: "2026-11-01"}, {From: hostile, To: hostile}, {From: "2026-11-03", To: "2026-11-04"}},
		Buckets: []coverage.Buckets{{From: 0, To: 0}, {From: 1, To: 1}},
	}
}

// Verify finds that a half of the rows of the first day match.
func (s *server) Verify(ctx context.Context, query []byte, report func(progress.Message)) (*loader.Verification, error) {
	s.queries = append(s.queries, "verify "+string(query))
	report(progress.Message{Step: "read", Counts: progress.Counts{RowsRead: 1000, OfRowsRead: 5000}})
	if err := s.called(ctx); err != nil {
		return nil, err
	}
	join := &verify.Join{
		TrainingRows: 300, Matched: 50, MatchRate: 1.0 / 6, MinMatch: 0.9,
		Cells: &coverage.Matches{Axes: axes(), Rows: coverage.Grid{{50, 50}, {50, 50}, {50, 50}}, Matched: coverage.Grid{{50, 0}, {0, 0}, {0, 0}}},
	}
	return &loader.Verification{
		Dataset: "homefeed", Plan: "p", Tables: []verify.Table{{Name: "training"}, {Name: "a", Table: "features.a", Join: join}},
		Findings: []verify.Finding{{Grade: "rule", Kind: "match_rate", Table: "a", Message: "too few " + hostile}},
	}, nil
}

// The page of a backfill has the coverage of the dataset's training rows by the snapshot of the branch, and names the days without staged rows.
//
// spec: ui-15
func TestCoverageOfABackfill(t *testing.T) {
	of := features()
	pages := pagesOf(t, of)
	_, body := get(t, pages, "/backfills/features.a?branch=ready")
	require.Equal(t, []string{`{"dataset":"homefeed"}`, `{"dataset":"homefeed","snapshots":{"staging":{"a":{"snapshot":4}}}}`}, of.queries)
	for _, text := range []string{
		"1 partition with 100 training rows and no staged row: day = ", "1 bucket of other partitions", `<th scope="row"><bdi>2026-11-01</bdi></th><td class="n">100</td><td class="n">50</td>`,
		`<td class="n failure">none</td>`, "2026-11-03 to 2026-11-04", "at snapshot 4", "Staged rows by day and bucket", "<svg",
		`href="/tables/features.a/statistics?at=ready&amp;against=main"`,
	} {
		require.Contains(t, body, text)
	}
	require.NotContains(t, body, "<script>")
	require.NotContains(t, body, "\x1b")

	of.queries = nil
	_, body = get(t, pages, "/backfills/features.new?branch=first")
	require.Empty(t, of.queries)
	require.Contains(t, body, "No dataset that you may read has this table")
	_, body = get(t, pages, "/backfills/features.new?branch=first&dataset=home")
	require.JSONEq(t, `{"dataset":"home","snapshots":{"staging":{"penstock_backfill":{"snapshot":6}}},"with":[{"name":"penstock_backfill","prefix":"penstock_backfill_","table":"features.new"}]}`, of.queries[1])
	require.Contains(t, body, "which does not read the table yet")
}

// Datasets may name the default catalog. A training table is no backfill of its own dataset.
//
// spec: ui-15
func TestNamesOfTablesInDatasets(t *testing.T) {
	of := features()
	of.tables[0].Table = "default.features.a"
	for _, branch := range []string{"main", "ready"} {
		of.logs["default.features.a@"+branch] = of.logs["features.a@"+branch]
	}
	_, body := get(t, pagesOf(t, of), "/backfills/default.features.a?branch=ready")
	require.Contains(t, body, "by its entry <bdi>a</bdi>")
	of.tables[0].Table = "ml.train"
	for _, branch := range []string{"main", "ready"} {
		of.logs["ml.train@"+branch] = of.logs["features.a@"+branch]
	}
	_, body = get(t, pagesOf(t, of), "/backfills/ml.train?branch=ready")
	require.Contains(t, body, "table ml.train is the training table of dataset homefeed")
}

// A dataset that cannot be read does not hide the stages.
//
// spec: ui-15
func TestCoverageThatIsRefused(t *testing.T) {
	of := &refusing{lake: *features()}
	answer, body := get(t, pagesOf(t, of), "/backfills/features.a?branch=ready")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, body, "token-4")
	require.Contains(t, body, "no right to explain")
	answer, _ = get(t, pagesOf(t, of), "/backfills/features.a/verify?branch=ready")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
}

// refusing is a lake whose rows are withheld.
type refusing struct{ lake }

func (r *refusing) Coverage(context.Context, []byte) (coverage.Coverage, error) {
	return coverage.Coverage{}, fault.New(fault.Forbidden, "no right to explain")
}

// A verification reads the snapshot of the branch, and its page has match rates by day, the time, and what penstock verify prints.
//
// spec: ui-16
func TestVerificationOfABackfill(t *testing.T) {
	of := features()
	pages := pagesOf(t, of)
	_, body := get(t, pages, "/backfills/features.a/verify?branch=ready&dataset=homefeed")
	require.Equal(t, `verify {"dataset":"homefeed","snapshots":{"staging":{"a":{"snapshot":4}}}}`, of.queries[2])
	for _, text := range []string{
		"Reads rows: 1,000 of 5,000", `<td class="n">50</td><td class="n">50%</td>`, "<dt>Match rate</dt><dd>16.7% of 300 training rows</dd>", "<dt>Required</dt><dd>90%</dd>", "<dt>Measured</dt>",
		"Some findings break a stream or a rule", "breaks a rule: 1 finding", "Match rate by day and bucket",
	} {
		require.Contains(t, body, text)
	}
	require.NotContains(t, body, "<script>")
	for path, want := range map[string]int{
		"/backfills/features.a/verify?branch=none": http.StatusNotFound, "/backfills/features.a/verify": http.StatusBadRequest, "/backfills/features.new/verify?branch=first": http.StatusBadRequest,
	} {
		answer, _ := get(t, pages, path)
		require.Equal(t, want, answer.StatusCode, path)
	}
}

// Propose lays out a table with hostile names.
func (s *server) Propose(ctx context.Context, request decode.ProposeCommand) (flight.Proposal, error) {
	s.proposed = append(s.proposed, request)
	return flight.Proposal{
		Dataset: request.Dataset, Table: request.Table, SQL: "CREATE TABLE `" + hostile + "`\n", YAML: "datasets:\n  " + hostile + "\n",
		Columns: []flight.ProposedColumn{{Name: "id", Type: "BIGINT"}, {Name: hostile, Type: "FLOAT"}}, Key: []string{"id"}, Partition: []string{"bucket(4, `id`)"}, Sort: []string{"id"},
		Aligned: "day", StageFlags: []string{"--key", "id", "--buckets", "4"}, Notes: []string{hostile},
	}, s.called(ctx)
}

// The page of a new backfill asks for the layout of the table that the form describes, and has texts to copy.
//
// spec: ui-17
func TestNewBackfill(t *testing.T) {
	of := features()
	pages := pagesOf(t, of)
	_, body := get(t, pages, "/backfills/new")
	require.Empty(t, of.proposed)
	require.Contains(t, body, "<option>homefeed</option>")
	form := url.Values{
		"dataset": {"homefeed"}, "table": {" features.x "}, "columns": {"a:float\r\n\n b:list<long> "}, "from": {"2026-11-01"}, "to": {""}, "key": {"id, day"}, "sort": {""},
		"buckets": {"8"}, "replaces": {""}, "unaligned": {"on"},
	}
	_, body = get(t, pages, "/backfills/new?"+form.Encode())
	require.Equal(t, []decode.ProposeCommand{{
		Dataset: "homefeed", Table: "features.x", Columns: []string{"a:float", "b:list<long>"}, Key: []string{"id", "day"}, Buckets: 8, Unaligned: true, From: "2026-11-01",
	}}, of.proposed)
	for _, text := range []string{
		"<option selected>homefeed</option>", "bucket(4, `id`)", `data-copy="sql"`, `id="yaml"`, "penstock stage features.x --key id --buckets 4 --token ", "penstock stage features.x --branch backfill --token ", "training rows with its key and <bdi>day</bdi>",
	} {
		require.Contains(t, body, text)
	}
	require.NotContains(t, body, "<script>")
	require.NotContains(t, body, "\u202e")
	form.Set("buckets", "many")
	answer, body := get(t, pages, "/backfills/new?"+form.Encode())
	require.Equal(t, http.StatusOK, answer.StatusCode, "the form stays")
	require.Contains(t, body, "is not a number")
	require.Contains(t, body, "b:list&lt;long&gt;")
}
