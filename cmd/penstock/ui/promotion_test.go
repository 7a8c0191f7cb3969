package ui_test

import (
	"context"
	"encoding/json"
	"flag"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/promote"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// promotingLake is a lake with a dataset whose entries can be promoted.
type promotingLake struct {
	*changingLake
	promoted bool
	unequal  bool // an unfinished promotion has other snapshots
	demoted  [][]string
	started  [][]string
	state    *children.State
	stopped  []string
}

func newPromotingLake() *promotingLake { return &promotingLake{changingLake: newChangingLake()} }

func (l *promotingLake) Datasets(ctx context.Context) ([]client.Dataset, error) {
	return []client.Dataset{{Name: "home", Rows: 5, Staging: []string{"history", hostile}}}, l.called(ctx)
}

func (l *promotingLake) Change(ctx context.Context, action string, body, out any, _ func(progress.Message)) error {
	if l.refused != nil {
		return l.refused
	}
	switch request := body.(type) {
	case decode.PromoteCommand:
		if !request.DryRun {
			return fault.New(fault.Internal, "a page promotes in its own process")
		}
		if l.unequal && request.Earlier == "" {
			return fault.New(fault.Conflict, "an unfinished promotion has other snapshots")
		}
		result := out.(*changes.Promoted) //nolint:forcetypeassert // as the server decodes it
		result.PromotionResult = promote.PromotionResult{
			Table: "ml.rows", Columns: []promote.PromotedColumn{{Name: hostile, Entry: "history", Type: "int64", Old: "before"}},
			Files: 3, Skipped: 2, Rows: 1234, BytesCopied: 5 << 20, Estimate: &promote.Estimate{Seconds: 90, Epochs: 2},
		}
		if l.promoted {
			result.Existed, result.Files, result.Skipped = true, 0, 5
		}
	case decode.DemoteCommand:
		result, dry := out.(*promote.Demotion)
		if !dry {
			l.demoted = append(l.demoted, request.Columns)
			l.promoted = false
			break
		}
		if l.promoted {
			*result = promote.Demotion{Table: request.Table, Dropped: request.Columns, Entries: []string{hostile}, Losing: map[string][]string{"other": {"a"}}}
		}
	default:
		return fault.New(fault.Internal, "no %s", action)
	}
	return l.called(ctx)
}

func (l *promotingLake) Start(dataset string, entries []string, earlier decode.EarlierPromotion) error {
	if l.state != nil && l.state.Running {
		return fault.New(fault.Conflict, "it runs")
	}
	l.started = append(l.started, append([]string{dataset, string(earlier)}, entries...))
	l.state = &children.State{Running: true, Progress: children.Progress{Step: "rewrite", Counts: progress.Counts{Files: 1, OfFiles: 4, RowsWritten: 77}}}
	return nil
}

func (l *promotingLake) State(string) (children.State, bool) {
	if l.state == nil {
		return children.State{}, false
	}
	return *l.state, true
}

func (l *promotingLake) Stop(dataset string) bool {
	l.stopped = append(l.stopped, dataset)
	return true
}

func (l *promotingLake) SparkSQL(context.Context, string, []string) (string, error) {
	return "INSERT OVERWRITE " + hostile, nil
}

func (l *promotingLake) Memory() int64 { return 3 << 30 }

// promotionPages returns the pages of a lake, with or without promotions in processes of their own.
func promotionPages(t *testing.T, of *promotingLake, starts bool) http.Handler {
	t.Helper()
	options := ui.Options{Read: of, Change: of, Version: "0.1.0", Source: " --config penstock.yaml", Session: func(r *http.Request) string { return r.Header.Get("Session") }}
	if starts {
		options.Promotions = of
	}
	pages, err := ui.New(options)
	require.NoError(t, err)
	return pages
}

// The page shows the dry run, and the ways to promote: the command, a job and Spark SQL.
//
// spec: ui-25
func TestPromotionsAreShownBefore(t *testing.T) {
	for _, starts := range []bool{true, false} {
		of := newPromotingLake()
		pages := promotionPages(t, of, starts)
		_, page := get(t, pages, "/promotions/home")
		require.Contains(t, page, `name="entry" value="history"`)
		require.NotContains(t, page, "As a command")
		_, page = get(t, pages, "/promotions/home?entry=history", "Session", "one")
		for _, text := range []string{
			`value="history" checked`, "2 of 5", "1,234", "5.0 MiB", "2 epochs", "penstock promote home history --config penstock.yaml", "kind: Job",
			"penstock demote ml.rows", "renamed to <bdi>before</bdi>",
		} {
			require.Contains(t, page, text)
		}
		require.Equal(t, starts, strings.Contains(page, `<form method="post"`))
		require.Equal(t, starts, strings.Contains(page, "INSERT OVERWRITE"))
		require.NotContains(t, page, "<script>")
		_, part := get(t, pages, "/promotions/home?entry=history&part=1", "Session", "one")
		require.NotContains(t, part, "As a command", "a part makes no dry run")
		_, page = get(t, pages, "/datasets/home")
		require.Contains(t, page, `href="/promotions/home"`)
		answer, _ := get(t, pages, "/promotions/none")
		require.Equal(t, http.StatusNotFound, answer.StatusCode)
		for kind, status := range map[fault.Kind]int{fault.Forbidden: http.StatusForbidden, fault.Invalid: http.StatusOK} {
			of.refused = fault.New(kind, "the catalog allows no writes").WithRemedy("ask for them")
			answer, page := get(t, pages, "/promotions/home?entry=history", "Session", "one")
			require.Equal(t, status, answer.StatusCode)
			require.Contains(t, page, "ask for them")
			require.NotContains(t, page, `<form method="post"`)
		}
	}
}

// A form starts one promotion of a dataset, whose progress the page shows.
//
// spec: ui-26
func TestPromotionsAreStarted(t *testing.T) {
	of := newPromotingLake()
	pages := promotionPages(t, of, true)
	of.unequal = true
	_, page := get(t, pages, "/promotions/home?entry=history&entry="+url.QueryEscape(hostile), "Session", "one")
	require.Contains(t, page, "an unfinished promotion has other snapshots")
	action, fields := formOf(t, page)
	fields["entry"] = []string{"history", hostile}
	fields.Set("earlier", "continue")
	for name, wrong := range map[string]url.Values{"entry": {"form": fields["form"]}, "earlier": {"form": fields["form"], "entry": {"a"}, "earlier": {"yes"}}} {
		require.Equal(t, http.StatusBadRequest, send(pages, action, wrong, asItIs).StatusCode, name)
	}
	require.Equal(t, http.StatusForbidden, send(pages, action, fields, func(r *http.Request) { r.Header.Del("Origin") }).StatusCode)
	require.Empty(t, of.started)
	answer := send(pages, action, fields, asItIs)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, http.StatusConflict, send(pages, action, fields, asItIs).StatusCode, "it runs")
	require.Equal(t, [][]string{{"home", "continue", "history", hostile}}, of.started)

	_, page = get(t, pages, answer.Header.Get("Location"), "Session", "one")
	for _, text := range []string{"1 of 4, 25 %", "77", `data-every="2000"`, "A promotion runs"} {
		require.Contains(t, page, text)
	}
	action, fields = formOf(t, page)
	require.Equal(t, "/promotions/home/stop", action)
	require.Equal(t, http.StatusSeeOther, send(pages, action, fields, asItIs).StatusCode)
	require.Equal(t, []string{"home"}, of.stopped)
	of.state = &children.State{Failure: "it failed " + hostile, Remedy: "look", Said: []string{hostile}, Ended: time.Unix(0, 0)}
	_, page = get(t, pages, "/promotions/home")
	require.Contains(t, page, "The promotion has failed")
	require.NotContains(t, page, "<script>")
	result, err := json.Marshal(changes.Promoted{PromotionResult: promote.PromotionResult{Table: "ml.rows", Files: 4, Compared: 99, Columns: []promote.PromotedColumn{{Name: "c"}}}})
	require.NoError(t, err)
	of.state = &children.State{Result: result}
	_, page = get(t, pages, "/promotions/home")
	for _, text := range []string{"The promotion has ended", "99", "/demote/ml.rows?column=c"} {
		require.Contains(t, page, text)
	}
	// Pages of a server start nothing.
	other := promotionPages(t, of, false)
	require.Equal(t, http.StatusMethodNotAllowed, send(other, "/promotions/home", fields, asItIs).StatusCode)
	require.Equal(t, http.StatusNotFound, send(other, "/promotions/home/stop", fields, asItIs).StatusCode)
}

// Promoted columns are taken back by a form, and a repeated form changes nothing.
//
// spec: ui-27
func TestPromotionsAreTakenBack(t *testing.T) {
	of := newPromotingLake()
	of.promoted = true
	pages := promotionPages(t, of, false)
	_, page := get(t, pages, "/promotions/home?entry=history", "Session", "one")
	require.Contains(t, page, "has the columns")
	require.NotContains(t, page, "As a command")
	link := regexp.MustCompile(`href="(/demote/[^"]*)"`).FindStringSubmatch(page)
	require.NotNil(t, link)
	_, page = get(t, pages, html.UnescapeString(link[1]), "Session", "one")
	require.Contains(t, page, "other: a")
	require.NotContains(t, page, "<script>")
	action, fields := formOf(t, page)
	fields.Set("column", html.UnescapeString(fields.Get("column")))
	answer := send(pages, action, fields, asItIs)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	_, page = get(t, pages, answer.Header.Get("Location"), "Session", "one")
	require.Contains(t, page, "has no promoted columns")
	require.NotContains(t, page, "<form")
	require.Equal(t, http.StatusSeeOther, send(pages, action, fields, asItIs).StatusCode)
	of.refused = fault.New(fault.Forbidden, "no right promote")
	answer = send(pages, action, fields, asItIs)
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "no right promote")
	for _, path := range []string{"/demote/ml.rows", "/demote/ml.rows?column=a"} {
		answer, _ := get(t, pages, path)
		require.NotEqual(t, http.StatusOK, answer.StatusCode)
	}
}

// The job is that of the golden file, which tests of the chart decode as Kubernetes does. Names cannot add fields.
//
// spec: ui-25
func TestJobOfAPromotion(t *testing.T) {
	job := func(dataset, entry string) string {
		of := newPromotingLake()
		_, page := get(t, promotionPages(t, of, false), "/promotions/"+dataset+"?entry="+url.QueryEscape(entry))
		found := regexp.MustCompile(`(?s)<pre class="wide" tabindex="0" id="job">(.*?)</pre>`).FindStringSubmatch(page)
		require.NotNil(t, found, page)
		return html.UnescapeString(found[1])
	}
	const golden = "testdata/job.yaml"
	if got := job("home", "history"); *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	} else {
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	}
	require.Contains(t, job("home", "a\"\n- evil: {{x}}"), `"a\"\n- evil: {{x}}"`)
}
