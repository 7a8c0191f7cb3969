package flight

import (
	"context"
	"strconv"
	"strings"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/stream"
)

// The explanation of a plan has what its last stream on this server matched.
//
// spec: join-105
func TestExplainTellsTheLastStream(t *testing.T) {
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

// The plans that were read most recently are remembered, each once.
//
// spec: join-105
func TestLastRunsAreBounded(t *testing.T) {
	t.Parallel()
	var runs lastRuns
	of := func(rows int64) map[string]stream.StagingReport {
		return map[string]stream.StagingReport{"s": {Counts: joiner.Counts{Rows: rows, Matched: 1}}}
	}
	require.Empty(t, runs.text("a"))
	runs.add("none", of(0))
	require.Empty(t, runs.text("none"))
	runs.add("a", of(2))
	for i := range maxRuns - 1 {
		runs.add(strconv.Itoa(i), of(2))
	}
	runs.add("a", of(4))
	require.Contains(t, runs.text("a"), "1 of 4")
	require.NotEmpty(t, runs.text("0"))
	runs.add("b", of(2))
	require.Empty(t, runs.text("0"), "the oldest is forgotten")
	require.True(t, strings.HasPrefix(runs.text("a"), "\nlast stream"))
	require.Len(t, runs.texts, maxRuns)
}
