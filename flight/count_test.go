package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/ticket/tickettest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// filtered is a query that drops rows, with further fields.
func filtered(fields string) string {
	return `{"dataset": "homefeed", "columns": ["item", "country"], "filter": "country <> 'c3' AND score > 20", ` + fields + `}`
}

// rowsSaid is what the endpoints of an answer say of their rows.
func rowsSaid(t *testing.T, answer *arrowflight.FlightInfo) []int64 {
	t.Helper()
	var all []int64
	for _, m := range said(t, answer) {
		all = append(all, m.Rows)
	}
	return all
}

// said is what the endpoints of an answer say.
func said(t *testing.T, answer *arrowflight.FlightInfo) []endpointMetadata {
	t.Helper()
	var all []endpointMetadata
	for _, e := range answer.GetEndpoint() {
		var m endpointMetadata
		require.NoError(t, json.Unmarshal(e.GetAppMetadata(), &m))
		all = append(all, m)
	}
	return all
}

// list is cursors as a query takes them.
func list(t *testing.T, all []got, step int) string {
	t.Helper()
	var cursors []json.RawMessage
	for _, g := range all {
		cursors = append(cursors, g.cursors[step])
	}
	text, err := json.Marshal(cursors)
	require.NoError(t, err)
	return string(text)
}

// TestFlightInfoCounts checks that the streams return the rows and steps that FlightInfo
// announces, for any number of shards and DataLoader workers, from the start and from a
// cursor, and that ranks end at the same step.
//
// spec: step-7, step-1, order-16, order-17, endpoint-18
func TestFlightInfoCounts(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader(), Observer: Observer{StreamEnded: func(StreamEnd) {}}})
	all := len(s.readAll(t, filtered(`"lanes": 1`))[0].rows)
	for _, tail := range []string{"drop", "keep"} {
		for _, of := range []int{1, 2, 4} {
			base := fmt.Sprintf(`"lanes": 4, "shard": {"of": %d}, "batch_rows": %d, "count": "exact", "tail": %q`, of, 48/of, tail)
			whole := s.readAll(t, filtered(base))
			for _, more := range []string{"", `, "every": {"step": 0, "of": 2}`, `, "every": {"step": 2, "of": 3}`, `, "cursor": ` + list(t, whole, 1), `, "every": {"step": 1, "of": 3}, "cursor": ` + list(t, whole, 2)} {
				query := filtered(base + more)
				answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
				require.NoError(t, err)
				endpoints, said := said(t, answer), summaryOf(t, answer)
				require.EqualValues(t, all, said.Rows)
				require.Empty(t, said.RowsUnknown)
				longest := int64(0)
				for _, g := range whole {
					longest = max(longest, g.report.Steps)
				}
				require.Equal(t, longest, said.Steps)
				total := int64(0)
				for i, g := range s.readAll(t, query) {
					require.EqualValues(t, len(g.rows), endpoints[i].Rows, query)
					require.EqualValues(t, len(g.sizes), endpoints[i].Batches, query)
					total += int64(len(g.rows))
					require.Equal(t, whole[i].report.Cursor.Step, g.report.Cursor.Step, "workers and restarts end at the same step")
					require.True(t, tail == "keep" || g.report.Cursor.Step == said.Steps, "all ranks end at the same step")
					require.Equal(t, int64(len(g.sizes)), g.report.Batches)
				}
				require.Equal(t, total, answer.GetTotalRecords(), query)
			}
		}
	}
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(filtered(`"shard": {"of": 2}`)))
	require.NoError(t, err)
	require.Equal(t, []endpointMetadata{{V: 1, Rows: -1, Batches: -1}, {V: 1, Rows: -1, Batches: -1}}, said(t, answer))
	require.EqualValues(t, -1, answer.GetTotalRecords())
	query := `{"dataset": "homefeed", "shard": {"of": 2}, "every": {"step": 1, "of": 2}, "batch_rows": 100}`
	answer, err = s.GetFlightInfo(context.Background(), flighttest.Command(query))
	require.NoError(t, err)
	for i, g := range s.readAll(t, query) {
		require.EqualValues(t, len(g.rows), rowsSaid(t, answer)[i], "the manifests know")
	}
}

// counts is a loader that counts how often it is asked to count.
func counts(under Loader, asked *int) Loader {
	return countingLoader{under, asked}
}

type countingLoader struct {
	Loader
	counted *int
}

func (l countingLoader) Count(ctx context.Context, p loader.Planned, r loader.StreamOptions, admit loader.Admit) (*dataset.Counts, error) {
	return l.Loader.Count(ctx, p, r, func(ctx context.Context) (context.Context, func(), error) {
		*l.counted++
		return admit(ctx)
	})
}

// TestOnlyGetFlightInfoCounts checks that only GetFlightInfo counts rows, once for
// concurrent callers, and that tickets and cursors carry the counts to other servers.
//
// spec: step-5, step-9
func TestOnlyGetFlightInfoCounts(t *testing.T) {
	w := newWorld(t)
	asked := 0
	s := serve(t, Options{Loader: counts(w.loader(), &asked)})
	query := filtered(`"tail": "drop", "lanes": 2, "shard": {"of": 2}, "batch_rows": 20`)
	_, err := s.GetSchema(context.Background(), flighttest.Command(query))
	require.NoError(t, err)
	for _, action := range []string{"explain", "manifest"} {
		stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: action, Body: []byte(query)})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
	}
	s.readAll(t, filtered(`"lanes": 2`))
	require.Zero(t, asked)
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
	require.NoError(t, err)
	require.Equal(t, 1, asked)

	none := 0
	other := serve(t, Options{Loader: counts(w.loader(), &none)})
	var whole []got
	for _, e := range answer.GetEndpoint() {
		g, err := read(context.Background(), other.Client, e.GetTicket())
		require.NoError(t, err)
		whole = append(whole, g)
		cursor, err := decode.Cursor(g.cursors[0])
		require.NoError(t, err)
		require.NotNil(t, cursor.Counted)
	}
	require.Equal(t, whole[0].report.Steps, whole[1].report.Steps)
	rest := other.readAll(t, filtered(`"tail": "drop", "batch_rows": 40, "shard": {"of": 1}, "cursor": `+list(t, whole, 3)))
	require.Equal(t, whole[0].report.Steps-4, rest[0].report.Batches)
	require.Zero(t, none, "the ticket said it, and the cursors")
	last := serve(t, Options{Loader: counts(w.loader(), &none)})
	last.readAll(t, filtered(`"tail": "drop", "batch_rows": 40, "shard": {"of": 1}, "cursor": `+list(t, rest, 0)[1:len(list(t, rest, 0))-1]))
	require.Zero(t, none)
}

// TestTicketsWithoutCounts checks that a ticket without the counts that it needs is refused.
func TestTicketsWithoutCounts(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	ticket := s.ticket(t, filtered(`"tail": "drop", "shard": {"index": 0, "of": 1}`))
	c, err := tickettest.Keys(t).Open(ticket.GetTicket(), noon())
	require.NoError(t, err)
	require.NotNil(t, c.Counted)
	for name, change := range map[string]func(){
		"without":         func() { c.Counted = nil },
		"of more lanes":   func() { c.Counted = &dataset.Counted{Lanes: []int64{1, 2}} },
		"that cannot be ": func() { c.Counted = &dataset.Counted{Rows: 5, Lanes: []int64{1}} },
	} {
		change()
		sealed, err := tickettest.Keys(t).Seal(c, noon().Add(time.Hour))
		require.NoError(t, err)
		_, code, _ := s.getFailure(t, &arrowflight.Ticket{Ticket: sealed})
		require.Contains(t, []codes.Code{codes.FailedPrecondition, codes.InvalidArgument}, code, name)
	}
}

// TestTicketsOfManyLanes checks that the counts of the maximum number of lanes fit into a
// ticket.
//
// spec: ticket-7
func TestTicketsOfManyLanes(t *testing.T) {
	w := newWorld(t)
	many := make([]int64, 4096)
	for i := range many {
		many[i] = int64(i*i*7919)%1_000_003 + 1<<49
	}
	s := serve(t, Options{Loader: altered{Loader: w.loader(), count: func(context.Context, loader.Admit) (*dataset.Counts, error) {
		return dataset.NewCounts(many), nil
	}}})
	answer, err := s.GetFlightInfo(t.Context(), flighttest.Command(filtered(`"tail": "drop", "lanes": 4096, "batch_rows": 4096`)))
	require.NoError(t, err)
	require.Len(t, answer.GetEndpoint(), 1)
}

// blocked is a loader whose counts wait for their context, in their place.
func blocked(under Loader, in, out chan<- error) Loader {
	return altered{Loader: under, count: func(ctx context.Context, admit loader.Admit) (*dataset.Counts, error) {
		ctx, leave, err := admit(ctx)
		in <- err
		if err != nil {
			return nil, err
		}
		defer leave()
		<-ctx.Done()
		err = context.Cause(ctx)
		out <- err
		return nil, err
	}}
}

// TestCountsEndWithTheirCalls checks that a count ends if its client cancels the call, and
// if the server stops.
//
// spec: step-8
func TestCountsEndWithTheirCalls(t *testing.T) {
	w := newWorld(t)
	in, out := make(chan error, 1), make(chan error, 1)
	s := serve(t, Options{Loader: blocked(w.loader(), in, out), MaxStreams: 1})
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	ask := func(ctx context.Context) {
		_, err := s.GetFlightInfo(ctx, flighttest.Command(filtered(`"tail": "drop"`)))
		answered <- err
	}
	go ask(ctx)
	require.NoError(t, <-in)
	require.Equal(t, 1, s.server.Streams(), "it counts as a stream")
	cancel()
	require.ErrorIs(t, <-out, context.Canceled)
	require.Equal(t, codes.Canceled, status.Code(<-answered))

	go ask(context.Background())
	require.NoError(t, <-in)
	ended, end := context.WithCancel(context.Background())
	end()
	go func() { _ = s.server.Shutdown(ended) }()
	require.Equal(t, fault.Unavailable, fault.KindOf(<-out))
	require.Error(t, <-answered)
}

// TestCountsNeedASlot checks that a count without a slot waits for one, and does not take
// one from a stream.
//
// spec: step-12
func TestCountsNeedASlot(t *testing.T) {
	w := newWorld(t)
	in, out := make(chan error, 1), make(chan error, 1)
	s := serve(t, Options{Loader: blocked(w.loader(), in, out), MaxStreams: 1})
	taken := s.server.admission.Of(admission.Stream{Client: "another"})
	require.NoError(t, taken.Enter(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _, _ = s.GetFlightInfo(ctx, flighttest.Command(filtered(`"tail": "drop"`))) }()
	awaitSlotQueue(s)
	taken.Release()
	require.NoError(t, <-in)
	cancel()
	require.ErrorIs(t, <-out, context.Canceled)

	require.NoError(t, taken.Enter(context.Background()))
	ctx, cancel = context.WithCancel(context.Background())
	go func() { _, _ = s.GetFlightInfo(ctx, flighttest.Command(filtered(`"tail": "drop"`))) }()
	awaitSlotQueue(s)
	cancel()
	require.ErrorIs(t, <-in, context.Canceled)
	require.Zero(t, s.server.Waiting())
	require.Zero(t, s.server.Streams())
	taken.Release()
	require.Zero(t, s.server.admission.Counts().Taken)
}

// awaitSlotQueue waits until a call waits for a slot.
func awaitSlotQueue(s *served) {
	for s.server.Waiting() == 0 {
		runtime.Gosched()
	}
}

// TestExplainSaysWhatStepsCost checks that explain names what a count reads, and what
// DataLoader workers read more than once.
//
// spec: step-13
func TestExplainSaysWhatStepsCost(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	explain := func(query string) string {
		stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "explain_splits", Body: []byte(query)})
		require.NoError(t, err)
		result, err := stream.Recv()
		require.NoError(t, err)
		_, steps, _ := strings.Cut(string(result.GetBody()), "\nsteps\n")
		return steps
	}
	require.Empty(t, explain(`{"dataset": "homefeed", "tail": "drop"}`), "the manifests know")
	require.Empty(t, explain(filtered(`"lanes": 1`)))
	text := explain(filtered(`"tail": "drop"`))
	require.Contains(t, text, "rows are counted first, as a filter drops rows: ")
	require.Contains(t, text, "are read of the training table, history, unless")
	require.NotContains(t, explain(`{"dataset": "homefeed", "filter": "score > 20", "count": "exact"}`), "history")
	p, err := w.loader().Plan(context.Background(), dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}})
	require.NoError(t, err)
	bytes := int64(0)
	for _, split := range p.Splits {
		for _, f := range split.Files {
			bytes += f.File.Bytes
		}
	}
	require.Positive(t, bytes)
	text = explain(`{"dataset": "homefeed", "every": {"step": 1, "of": 4}}`)
	require.Contains(t, text, "every 4: 4 DataLoader workers take turns, from step 1 on.")
	require.Regexp(t, `up to \S+ \S*B in all, \S+ \S*B of it more than once`, text)
}
