package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// auditLines collects the lines of an audit log.
type auditLines struct {
	mu    sync.Mutex
	text  bytes.Buffer
	more  chan struct{}
	fails error
}

func (a *auditLines) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails != nil {
		return 0, a.fails
	}
	defer func() { a.more <- struct{}{} }()
	return a.text.Write(p)
}

// fail makes writing fail.
func (a *auditLines) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails = err
}

// next waits for a line, and returns all that there are and drops them.
func (a *auditLines) next(t *testing.T) []audit.Line {
	t.Helper()
	select {
	case <-a.more:
	case <-time.After(time.Minute):
		require.Fail(t, "there is no line")
	}
	return a.all(t)
}

// all returns the lines that there are, and drops them.
func (a *auditLines) all(t *testing.T) (out []audit.Line) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for line := range strings.Lines(a.text.String()) {
		var one audit.Line
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		out = append(out, one)
	}
	a.text.Reset()
	return out
}

// auditing returns options with an audit log.
func auditing(t *testing.T, o Options) (Options, *auditLines) {
	t.Helper()
	to := &auditLines{more: make(chan struct{}, 1024)}
	var err error
	o.Audit, err = audit.Open(audit.Options{Stderr: to, Clock: noon, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return o, to
}

// TestStreamsHaveALine: a stream that ends well has one line, with the subject, what was read, and how much.
//
// spec: access-21
func TestStreamsHaveALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, lines := auditing(t, Options{Loader: w.loader(), Authenticate: known})
	s := serve(t, o)
	alice := as(t.Context(), "Bearer a")
	e := s.endpointFor(alice, t, `{"dataset": "homefeed", "columns": ["item", "country"], "filter": "item >= 12345", "shard": {"index": 1, "of": 2}}`)
	require.Empty(t, lines.all(t), "plans have no line")
	answer, err := read(alice, s.Client, e.GetTicket())
	require.NoError(t, err)
	require.Empty(t, answer.rows)
	end := <-s.ended
	found := lines.next(t)
	require.Len(t, found, 1)
	pin := struct{ Pin dataset.Pin }{}
	flightInfo, err := s.GetFlightInfo(alice, flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(flightInfo.GetAppMetadata(), &pin))
	require.NotEmpty(t, found[0].Plan)
	found[0].Plan = ""
	require.Equal(t, audit.Line{
		Time: noon(), Event: audit.Stream, Call: "DoGet", Subject: "alice", Host: "127.0.0.1", Dataset: "homefeed", Columns: 2, Shard: "1/2",
		Tables: []audit.TableSnapshot{{Table: "ml.impressions", Snapshot: pin.Pin.Training.Snapshot}, {Table: "features.history", Snapshot: pin.Pin.Staging["history"].Snapshot}},
		Rows:   0, Batches: 0, Bytes: end.Bytes, End: "ok",
	}, found[0])
	require.Positive(t, end.Bytes)

	answer, err = read(alice, s.Client, s.endpointFor(alice, t, `{"dataset": "homefeed"}`).GetTicket())
	require.NoError(t, err)
	found = lines.next(t)
	require.Len(t, found, 1)
	require.Equal(t, int64(len(answer.rows)), found[0].Rows)
	require.Equal(t, int64(len(answer.sizes)), found[0].Batches)
}

// TestEveryEndOfAStreamHasOneLine checks each way in which a stream may end.
//
// spec: access-21
func TestEveryEndOfAStreamHasOneLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next  func(n int) (arrow.RecordBatch, error)
		open  error
		leave bool // the client does, after the first batch
		stop  bool // the server does
		end   string
		rows  int64
	}{
		"the end": {next: func(n int) (arrow.RecordBatch, error) {
			return map[bool]arrow.RecordBatch{true: numbers(5)}[n == 0], nil
		}, end: "ok", rows: 5},
		"damage":           {next: func(int) (arrow.RecordBatch, error) { return nil, fails(fault.Corrupt) }, end: "corrupt"},
		"storage":          {next: func(int) (arrow.RecordBatch, error) { return nil, fails(fault.Unavailable) }, end: "unavailable"},
		"a limit":          {next: func(int) (arrow.RecordBatch, error) { return nil, fails(fault.Exhausted) }, end: "exhausted"},
		"an unknown error": {next: func(int) (arrow.RecordBatch, error) { return nil, errors.New("secret row 7") }, end: "internal"},
		"a panic":          {next: func(int) (arrow.RecordBatch, error) { panic("secret row 7") }, end: "internal"},
		"opening fails":    {open: fails(fault.Expired), end: "expired"},
		"the client":       {next: func(int) (arrow.RecordBatch, error) { return numbers(5), nil }, leave: true, end: "cancelled"},
		"the server":       {next: func(int) (arrow.RecordBatch, error) { return numbers(5), nil }, stop: true, end: "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			o, lines := auditing(t, Options{Authenticate: known})
			o.Loader = opens(w.loader(), func(context.Context) *canned { return &canned{next: c.next} })
			if c.open != nil {
				o.Loader = altered{Loader: w.loader(), open: func(context.Context, loader.Planned, loader.StreamOptions) (loader.Stream, error) { return nil, c.open }}
			}
			s := serve(t, o)
			ctx, leave := context.WithCancel(as(t.Context(), "Bearer a"))
			defer leave()
			rows, err := s.DoGet(ctx, s.endpointFor(ctx, t, `{"dataset": "homefeed"}`).GetTicket())
			require.NoError(t, err)
			for n := 0; err == nil; n++ {
				_, err = rows.Recv()
				if n == 1 && c.leave {
					leave()
				}
				if n == 1 && c.stop {
					ended, cancel := context.WithCancel(t.Context())
					cancel()
					_ = s.server.Shutdown(ended)
				}
			}
			<-s.ended
			found := lines.next(t)
			require.Len(t, found, 1)
			require.Equal(t, []any{audit.Stream, c.end, "alice", "homefeed"}, []any{found[0].Event, found[0].End, found[0].Subject, found[0].Dataset})
			if c.end == "ok" {
				require.Equal(t, c.rows, found[0].Rows)
			}
			require.NotContains(t, string(jsontext.Of(found[0])), "secret")
		})
	}
}

// TestRefusalsHaveALine: a call that is refused, and a stream that never begins, has one line; no other call has any.
//
// spec: access-21, access-22
func TestRefusalsHaveALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, lines := auditing(t, Options{Loader: w.loader(), Authenticate: known, Verifier: w.loader()})
	s := serve(t, o)
	conn := s.connect(t)
	alice, bob := as(t.Context(), "Bearer a"), as(t.Context(), "Bearer b")
	e := s.endpointFor(alice, t, `{"dataset": "homefeed"}`)
	pin := struct{ Pin dataset.Pin }{}
	flightInfo, err := s.GetFlightInfo(alice, flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(flightInfo.GetAppMetadata(), &pin))
	get := func(ctx context.Context, ticket *arrowflight.Ticket) func() {
		return func() {
			_, err := read(ctx, s.Client, ticket)
			require.Error(t, err)
		}
	}
	one := func(name string, want audit.Line, act func()) {
		act()
		found := lines.next(t)
		require.Len(t, found, 1, name)
		want.Time, want.Host = noon(), "127.0.0.1"
		if found[0].Plan != "" {
			want.Plan = found[0].Plan
		}
		require.Equal(t, want, found[0], name)
		require.NotContains(t, string(jsontext.Of(found[0])), "Bearer", name)
	}
	refused := func(subject, call, set, end string) audit.Line {
		return audit.Line{Event: audit.Refusal, Subject: subject, Call: call, Dataset: set, End: end}
	}
	one("a ticket of another", refused("bob", "DoGet", "homefeed", "forbidden"), get(bob, e.GetTicket()))
	one("a forged ticket", refused("bob", "DoGet", "", "invalid"), get(bob, &arrowflight.Ticket{Ticket: []byte("forged")}))
	one("no token", refused("", "DoGet", "", "unauthenticated"), get(t.Context(), e.GetTicket()))
	one("a renewal for another", refused("bob", "RenewFlightEndpoint", "homefeed", "forbidden"), func() {
		_, err := s.renewFor(bob, t, e)
		require.Error(t, err)
	})
	for _, method := range []string{"GetFlightInfo", "GetSchema", "ListFlights", "DoAction", "ListActions", "DoPut", "DoExchange", "Handshake"} {
		one(method, refused("", method, "", "unauthenticated"), func() {
			call, err := openCall(as(t.Context(), "Bearer stolen"), conn, method)
			require.NoError(t, err)
			require.Equal(t, codes.Unauthenticated, status.Code(call.RecvMsg(nil)))
		})
	}
	one("a check of tables", audit.Line{
		Event: audit.Verify, Subject: "alice", Call: "verify", Dataset: "homefeed", End: "ok", Rows: trainingRows + 90,
		Tables: []audit.TableSnapshot{{Table: "ml.impressions", Snapshot: pin.Pin.Training.Snapshot}, {Table: "features.history", Snapshot: pin.Pin.Staging["history"].Snapshot}},
	}, func() {
		answers, err := s.DoAction(alice, &arrowflight.Action{Type: "verify", Body: []byte(`{"dataset": "homefeed"}`)})
		require.NoError(t, err)
		_, err = answers.Recv()
		require.NoError(t, err)
	})
	_, err = s.GetFlightInfo(alice, flighttest.Command(`{"dataset": "homefee"}`))
	require.Error(t, err)
	_, err = s.GetFlightInfo(alice, flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	require.Empty(t, lines.all(t))

	open, more := auditing(t, Options{Loader: w.loader()})
	plain := serve(t, open)
	_, err = plain.GetFlightInfo(alice, flighttest.Command(`{"dataset": "homefeed"}`))
	require.Error(t, err)
	found := more.next(t)
	require.Len(t, found, 1, "a token that is not checked")
	require.Equal(t, audit.Refusal, found[0].Event)
}

// A list of datasets has no line, even if it leaves out those that the policy hides.
//
// spec: access-21
func TestListsHaveNoLine(t *testing.T) {
	t.Parallel()
	o, lines := auditing(t, Options{})
	s, _ := people{emails: true}.server(t, o)
	listed := received(t, must(s.ListFlights(carol(t), &arrowflight.Criteria{})), nil)
	require.NotContains(t, listed, "people")
	require.Empty(t, lines.all(t))
}

// TestStreamsThatLeaveNoLineAreRefused: while the audit log cannot be written, no stream begins, and one does once it can.
//
// spec: access-23
func TestStreamsThatLeaveNoLineAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, lines := auditing(t, Options{Loader: w.loader(), Verifier: w.loader()})
	s := serve(t, o)
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	lines.fail(errors.New("no room"))
	_, err := read(t.Context(), s.Client, ticket)
	require.NoError(t, err, "the first line is lost, and logged")
	require.Eventually(t, func() bool { return s.server.options.Audit.Err() != nil }, time.Minute, time.Millisecond)
	for range 2 {
		_, code, d := s.getFailure(t, ticket)
		require.Equal(t, codes.Unavailable, code)
		require.Contains(t, d.Message, "no room")
		require.Positive(t, d.RetryAfterMS)
	}
	answers, err := s.DoAction(t.Context(), &arrowflight.Action{Type: "verify", Body: []byte(`{"dataset": "homefeed"}`)})
	require.NoError(t, err)
	_, err = answers.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	_, err = s.GetFlightInfo(t.Context(), flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err, "plans have no line")
	lines.fail(nil)
	s.getFailure(t, ticket) // whose own line is written
	require.Eventually(t, func() bool { return s.server.options.Audit.Err() == nil }, time.Minute, time.Millisecond)
	_, err = read(t.Context(), s.Client, ticket)
	require.NoError(t, err)
}
