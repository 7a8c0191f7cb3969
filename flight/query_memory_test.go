package flight

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/internal/budget"
)

// The query of a stream that waits for a slot is charged to the budget until the stream ends.
//
// spec: wire-53
func TestQueriesOfWaitingStreamsAreCharged(t *testing.T) {
	t.Parallel()
	large := `{"dataset": "homefeed", "columns": ["item"], "filter": "item in (` + strings.Repeat("1000001, ", 5_000) + `1000002)"}`
	const queries = 3
	charged := queryMemory * int64(len(large))
	b := budget.New((queries + 1) * charged)
	s := serve(t, Options{MaxStreams: 1, Budget: b, Loader: opens(newWorld(t).loader(), heavy(t, nil, 5))})
	small, ticket := s.ticket(t, `{"dataset": "homefeed"}`), s.ticket(t, large)
	open, err := s.DoGet(t.Context(), small)
	require.NoError(t, err)
	_, err = open.Recv()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return b.Used() == 0 }, time.Minute, time.Millisecond, "the query of the open stream is small, and its schema has left")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range queries {
		_, err := s.DoGet(ctx, ticket)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.server.Waiting() == queries }, time.Minute, time.Millisecond)
	require.Greater(t, b.Used(), queries*charged)
	_, code, _ := s.getFailure(t, ticket)
	require.Equal(t, codes.ResourceExhausted, code)
	cancel()
	require.Eventually(t, func() bool { return b.Used() == 0 }, time.Minute, time.Millisecond)
}
