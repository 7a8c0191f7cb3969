package flight

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan/coverage"
	"github.com/penstock/penstock/loader/stream"
)

// The explanation of a plan has what its last stream on this server matched.
//
// spec: join-105
func TestExplainShowsTheLastStream(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	explain := func(query string) string {
		t.Helper()
		answer, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "explain", Body: []byte(query)})
		require.NoError(t, err)
		result, err := answer.Recv()
		require.NoError(t, err)
		return string(result.GetBody())
	}
	query := `{"dataset": "homefeed"}`
	before := explain(query)
	require.NotContains(t, before, "last stream")
	s.readAll(t, query)
	<-s.ended
	const last = "\nlast stream of this plan on this server\n  history: 900 of 1009 training rows match (89.2%)\n"
	now := explain(query)
	require.Equal(t, before, strings.Replace(now, last, "", 1))
	require.Contains(t, now, last)
	require.NotContains(t, explain(`{"dataset": "homefeed", "filter": "item < 9"}`), "last stream")
}

// The streams that ended last are remembered: at most 50 of a dataset, so that it does not displace all others.
//
// spec: join-105
func TestLastRunsAreBounded(t *testing.T) {
	t.Parallel()
	var runs lastRuns
	add := func(dataset, tables string, rows int64) {
		runs.add(Run{dataset: dataset, tables: tables}, map[string]stream.StagingReport{"s": {Counts: joiner.Counts{Rows: rows, Matched: 1}}})
	}
	add("d", "none", 0)
	require.Empty(t, runs.text("none"))
	add("", "inline", 2)
	for i := range maxDatasetRuns + 1 {
		add("d", strconv.Itoa(i), 2)
	}
	require.Empty(t, runs.text("0"), "the oldest of the dataset is forgotten")
	require.NotEmpty(t, runs.text("1"))
	require.True(t, strings.HasPrefix(runs.text("inline"), "\nlast stream"))
	require.Len(t, runs.of("d"), maxDatasetRuns)
	require.Empty(t, runs.of(""))
	add("d", "5", 4)
	require.Contains(t, runs.text("5"), "1 of 4")
	for i := range maxRuns {
		add("", strconv.Itoa(i), 2)
	}
	require.Len(t, runs.all, maxRuns)
	require.Empty(t, runs.text("inline"))
	require.Empty(t, runs.of("d"))
}

// The shape of a plan has its rows by bucket and lane, and the last streams of its dataset.
//
// spec: ui-10, ui-11
func TestShapeOfAPlan(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	get := func(query string) (out PlanShape) {
		t.Helper()
		answer, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "explain_shape", Body: []byte(query)})
		require.NoError(t, err)
		result, err := answer.Recv()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(result.GetBody(), &out))
		return out
	}
	before := get(`{"dataset": "homefeed", "lanes": 2}`)
	require.Empty(t, before.Runs)
	require.Len(t, before.Lanes, 2)
	require.Equal(t, before.Rows, before.Lanes[0].Rows+before.Lanes[1].Rows)
	require.Equal(t, before.Rows, before.Training.Rows)
	sum := int64(0)
	for _, b := range before.Buckets {
		sum += b.Rows
		require.Len(t, b.Joined, 1)
	}
	require.Equal(t, before.Rows, sum)
	s.readAll(t, `{"dataset": "homefeed", "job": "nightly"}`)
	<-s.ended
	now := get(`{"dataset": "homefeed", "filter": "item < 9"}`)
	require.Len(t, now.Runs, 1, "those of other queries of the dataset, too")
	require.Equal(t, "nightly", now.Runs[0].Job)
	require.Equal(t, []RunMatch{{Entry: "history", Rows: 1009, Matched: 900}}, now.Runs[0].Matches)
}

// The coverage of a plan has its training rows, and the staging rows that are joined with them.
//
// spec: ui-14
func TestCoverageOfAPlan(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	answer, err := s.act(context.Background(), "explain_coverage", []byte(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	var got coverage.Coverage
	require.NoError(t, json.Unmarshal(answer, &got))
	training, joined := int64(0), int64(0)
	for i := range got.Parts {
		for b := range got.Buckets {
			training += got.Training[i][b]
			joined += got.Staging[0].Joined[i][b]
		}
	}
	require.EqualValues(t, 1009, training)
	require.GreaterOrEqual(t, joined, got.Staging[0].Rows)
	require.Positive(t, got.Staging[0].Rows)
	require.Equal(t, "features.history", got.Staging[0].Table)
}

// The memory of the description of a large plan is reserved.
//
// spec: wire-46
func TestDescriptionsOfLargePlansAreCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := altered{Loader: w.loader(), plan: func(q dataset.Query) (loader.Planned, error) {
		p, err := w.loader().Plan(t.Context(), q)
		if err == nil {
			of := *p.Plan
			of.Splits = slices.Repeat(of.Splits, 10_000)
			p.Plan = &of
		}
		return p, err
	}}
	b := budget.New(16 << 20)
	s := serve(t, Options{Loader: large, Budget: b})
	for action, body := range map[string]string{
		"explain": `{"dataset": "homefeed"}`, "explain_splits": `{"dataset": "homefeed"}`, "explain_shape": `{"dataset": "homefeed"}`,
		"explain_coverage": `{"dataset": "homefeed"}`,
		"explain_scale":    `{"query": {"dataset": "homefeed"}, "scale": "trainers=1,step=5ms"}`,
	} {
		_, err := s.act(t.Context(), action, []byte(body))
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, codes.ResourceExhausted, code, action)
	}
	require.Eventually(t, func() bool { return b.Used() == 0 }, time.Minute, time.Millisecond)
}
