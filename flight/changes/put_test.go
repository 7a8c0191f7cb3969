package changes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// spec: stage-60, stage-62
func TestRowsOfAClientAreOneChange(t *testing.T) {
	w := &writtenRows{}
	began, readings := time.Now(), atomic.Int64{}
	clock := func() time.Time { return began.Add(time.Duration(readings.Add(1)) * time.Second) } // so that each count is a message
	s := serveTables(t, w, flight.Options{Budget: budget.New(1 << 30), Clock: clock})
	p := put(t, s.Client, `{"stage": {"table": "ml.history", "mode": "replace", "token": "`+testToken+`", "branch": "try", "evolve": true, "again": true,
		"key": ["id"], "sort": ["id desc"], "buckets": 4, "partition": ["day(ts)"], "only_keys_of": "homefeed", "allow_duplicates": true, "allow_shrink": true, "dry_run": true, "no_check": true, "progress": true}}`, batchtest.IDSchema())
	p.rows(t, batchtest.IDs(0, 3), batchtest.IDs(3, 5)).declare(t, 5)
	got, err := p.answers()
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, w.made(testToken))
	require.Equal(t, changes.PutResult{Begin: &changes.PutBegins{Token: testToken, MaxMessage: 8 << 20}}, got[0])
	require.Equal(t, int64(3), got[1].Progress.RowsRead)
	require.Equal(t, int64(7), got[len(got)-1].Result.Snapshot)
	require.Equal(t, dataset.TableWrite{
		Table: "ml.history", Mode: dataset.WriteReplace, Token: testToken, Again: new(true), Branch: "try", Evolve: true, Key: []string{"id"}, DryRun: true,
		Partition: []string{"day(ts)"}, Buckets: 4, Sort: []string{"id desc"}, OnlyKeysOf: "homefeed", AllowDuplicates: true, AllowShrink: true, NoCheck: true, Progress: true,
	}, w.last)

	p = put(t, s.Client, stageOf, batchtest.IDSchema())
	got, err = p.rows(t, batchtest.IDs(0, 1)).answers()
	require.NoError(t, err)
	require.Len(t, got, 1, "no row is asked for")
	require.True(t, got[0].Result.Existed)

	p = put(t, s.Client, `{"stage": {"table": "ml.history", "like": "ml.impressions"}}`, batchtest.IDSchema())
	p.rows(t).declare(t, 0)
	got, err = p.answers()
	require.NoError(t, err)
	require.NoError(t, commit.CheckToken(got[0].Begin.Token, clock()), "a token is made")
	require.Equal(t, got[0].Begin.Token, got[1].Result.Token)
	require.True(t, w.last.Once(), "the server's token does not name the rows")
}

// A stream changes nothing unless it ends with its number of rows and a closed side.
//
// spec: stage-61
func TestIncompleteStreamsChangeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(p *putting) error
		code codes.Code
		says string
	}{
		"closed without a number": {func(p *putting) error { return p.CloseSend() }, codes.InvalidArgument, "without the message"},
		"closed after the schema": {func(p *putting) error { return p.CloseSend() }, codes.InvalidArgument, "without the message"},
		"fewer rows": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 3}`)}), p.CloseSend())
		}, codes.DataLoss, "has sent 3 rows, and 2 have arrived"},
		"more rows": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 1}`)}), p.CloseSend())
		}, codes.DataLoss, "has sent 1 rows, and 2 have arrived"},
		"no number": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{}`)}), p.CloseSend())
		}, codes.InvalidArgument, "neither rows nor their number"},
		"rows after the number": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 2}`)}), p.writer.Write(batchtest.IDs(0, 1)), p.CloseSend())
		}, codes.InvalidArgument, "after the last one"},
		"canceled": {func(p *putting) error { p.end(); return nil }, codes.Canceled, ""},
		"canceled after the number": {func(p *putting) error {
			err := p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 2}`)})
			p.end()
			return err
		}, codes.Canceled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writtenRows{}
			limit := budget.New(1 << 30)
			s := serveTables(t, w, flight.Options{Budget: limit})
			p := put(t, s.Client, stageOf, batchtest.IDSchema())
			if name != "closed after the schema" {
				p.rows(t, batchtest.IDs(0, 2))
			} else {
				p.rows(t)
			}
			_ = c.act(p) // the call may have ended
			_, err := p.answers()
			code, _ := flighttest.FailureOf(t, err, nil)
			require.Equal(t, c.code, code, err)
			require.ErrorContains(t, err, c.says)
			w.none(t)
			s.quiet(t)
			require.Zero(t, limit.Used())
		})
	}
}

// A client that sends nothing loses its call, and so does one whose server ends.
//
// spec: stage-65, stage-68
func TestCallsThatSendNothingEnd(t *testing.T) {
	w := &writtenRows{}
	s := serveTables(t, w, flight.Options{Budget: budget.New(1 << 30), PutTimeout: time.Millisecond})
	p := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	defer time.AfterFunc(20*time.Second, p.end).Stop()
	_, err := p.answers()
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.Unavailable, code)
	require.ErrorContains(t, err, "has sent nothing whole")
	w.none(t)

	w = &writtenRows{reading: make(chan struct{})}
	s = serveTables(t, w, flight.Options{Budget: budget.New(1 << 30)})
	p = put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.server.Shutdown(over))
	_, err = p.answers()
	code, _ = flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.Unavailable, code)
	require.ErrorContains(t, err, "shutting down")
	w.none(t)
}

// A server that drains lets a call finish.
//
// spec: stage-68
func TestCallsFinishWhileTheServerDrains(t *testing.T) {
	w := &writtenRows{reading: make(chan struct{})}
	s := serveTables(t, w, flight.Options{Budget: budget.New(1 << 30)})
	p := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	done := make(chan error, 1)
	go func() { done <- s.server.Shutdown(context.Background()) }()
	p.declare(t, 2)
	_, err := p.answers()
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Len(t, w.made(testToken), 2)
}

// spec: stage-63
func TestLargeMessagesAreRefused(t *testing.T) {
	w := &writtenRows{}
	s := serveTables(t, w, flight.Options{Budget: budget.New(256 << 20)})
	for name, p := range map[string]func() *putting{
		"beyond what is received": func() *putting {
			return put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 1<<20))
		},
		"beyond the limit": func() *putting {
			return put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 300_000))
		},
		"without its compression": func() *putting {
			return put(t, s.Client, stageOf, batchtest.IDSchema(), ipc.WithZstd()).rows(t, batchtest.IDs(0, 300_000))
		},
	} {
		call := p()
		_ = call.CloseSend() // the call may have ended
		_, err := call.answers()
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, codes.ResourceExhausted, code, name)
	}
	w.none(t)
	p := put(t, s.Client, stageOf, batchtest.IDSchema())
	b := batchtest.IDs(0, 200_000)
	p.rows(t, b, b).declare(t, 400_000)
	_, err := p.answers()
	require.NoError(t, err)
}

// spec: stage-64, stage-66
func TestManyCallsStayWithinTheirPlacesAndMemory(t *testing.T) {
	const calls, places = 50, 8
	w := &writtenRows{}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, flight.Options{Budget: limit, MaxStages: places, PeerShare: 100})
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			p := put(t, s.Client, fmt.Sprintf(`{"stage": {"table": "ml.history", "token": "20261001T120000.000Z-%d"}}`, i), batchtest.IDSchema())
			p.rows(t, batchtest.IDs(0, 1000), batchtest.IDs(1000, 2000)).declare(t, 2000)
			_, err := p.answers()
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.Len(t, w.changes, calls)
	require.LessOrEqual(t, limit.Peak(), int64(places*(2*rowsin.Limit(1<<30)+maxSchema)+calls*answerBytes))
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// Memory for a message is reserved before its client sends it, and dictionaries stay charged.
//
// spec: stage-64
func TestMessagesAreChargedBeforeTheyCome(t *testing.T) {
	w := &writtenRows{reading: make(chan struct{})}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, flight.Options{Budget: limit})
	p := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 100))
	_, err := p.Recv() // begin
	require.NoError(t, err)
	<-w.reading
	waits := func() bool {
		more := limit.Used() - 2*rowsin.Limit(1<<30)
		return more > 0 && more <= maxSchema
	}
	require.Eventually(t, waits, time.Minute, time.Millisecond)
	p.declare(t, 100)
	_, err = p.answers()
	require.NoError(t, err)
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// A forbidden call ends on its command alone: the rest of its first message is not read.
//
// spec: stage-111
func TestCallsThatMayNotWriteEndByTheirCommand(t *testing.T) {
	reads := []policy.AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Publish}, Write: []string{"*"}}}
	for name, c := range map[string]struct {
		options flight.Options
		refuse  error
		code    codes.Code
	}{
		"a catalog without writes": {flight.Options{}, fault.New(fault.Forbidden, "the catalog allows no writes"), codes.PermissionDenied},
		"a policy without stage":   {flight.Options{Policy: func() *policy.Policy { return &policy.Policy{Rules: reads} }}, nil, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writtenRows{refuse: c.refuse}
			memory := budget.New(1 << 30)
			c.options.Budget = memory
			s := serveTables(t, w, c.options)
			stream, err := s.DoPut(t.Context())
			require.NoError(t, err)
			hostile := []byte{0xff, 0xff, 0xff, 0x7f, 1, 2, 3}
			require.NoError(t, stream.Send(&arrowflight.FlightData{FlightDescriptor: flighttest.Command(stageOf), DataHeader: hostile, DataBody: make([]byte, 1<<20)}))
			_, err = (&putting{FlightService_DoPutClient: stream}).answers()
			code, _ := flighttest.FailureOf(t, err, nil)
			require.Equal(t, c.code, code, err)
			w.none(t)
			s.quiet(t)
			require.Zero(t, memory.Used())
		})
	}
}
