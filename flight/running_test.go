package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// hand is a clock that tests advance.
type hand struct{ nanos atomic.Int64 }

func (h *hand) read() time.Time         { return noon().Add(time.Duration(h.nanos.Load())) }
func (h *hand) advance(d time.Duration) { h.nanos.Add(int64(d)) }

// status calls the action.
func (s *served) status(ctx context.Context, t testing.TB) ServerStatus {
	t.Helper()
	text, err := s.act(ctx, "status", nil)
	require.NoError(t, err)
	var out ServerStatus
	require.NoError(t, json.Unmarshal(text, &out))
	require.Equal(t, 1, out.V)
	return out
}

// stream returns the status of the stream of a job; the zero value if there is none.
func (s *served) stream(t testing.TB, job string) StreamStatus {
	t.Helper()
	all := s.status(t.Context(), t).Streams
	if i := slices.IndexFunc(all, func(one StreamStatus) bool { return one.Job == job }); i >= 0 {
		return all[i]
	}
	return StreamStatus{}
}

// eventually waits until the stream of a job waits for a cause; "" is work.
func (s *served) eventually(t testing.TB, job, cause string) {
	t.Helper()
	require.Eventually(t, func() bool {
		one := s.stream(t, job)
		return one.Job == job && one.Waiting == cause
	}, time.Minute, time.Millisecond, "%s does not wait for %q", job, cause)
}

// begin opens a stream over a connection of its own, and reads nothing.
func (s *served) begin(ctx context.Context, t testing.TB, query string) arrowflight.FlightService_DoGetClient {
	t.Helper()
	described, err := s.GetFlightInfo(ctx, flighttest.Command(query))
	require.NoError(t, err)
	stream, err := dial(t, s.address).DoGet(ctx, described.GetEndpoint()[0].GetTicket())
	require.NoError(t, err)
	return stream
}

// TestStatusListsStreamsAndTheirWaits has one job whose client does not read, and one whose storage is slow. The first one
// ends once it is read.
//
// spec: status-1, status-2, status-3
func TestStatusListsStreamsAndTheirWaits(t *testing.T) {
	t.Parallel()
	var clock hand
	gate := make(chan struct{})
	under := heavy(t, nil, 5)
	var opened atomic.Int32
	s := serve(t, Options{Version: "v", Clock: clock.read, Ticks: clock.read, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
		c := under(ctx)
		if opened.Add(1) == 1 {
			return c
		}
		next := c.next
		c.next = func(n int) (arrow.RecordBatch, error) {
			if n == 1 {
				read, rows := waits.Begin(ctx, waits.Storage), waits.Of(ctx).AwaitRows()
				<-gate
				rows()
				read()
			}
			return next(n)
		}
		return c
	})})
	require.Empty(t, s.status(t.Context(), t).Streams)
	slow := s.begin(t.Context(), t, `{"dataset":"homefeed","job":"slow"}`)
	require.Eventually(t, func() bool { // the first batch fits into the buffers of the connection, and the second waits
		one := s.stream(t, "slow")
		return one.Batches == 1 && one.Waiting == "trainer"
	}, time.Minute, time.Millisecond)
	clock.advance(time.Second)
	far := s.begin(t.Context(), t, `{"dataset":"homefeed","job":"far/storage","lanes":4,"shard":{"index":1,"of":2}}`)
	s.eventually(t, "far/storage", "storage")
	clock.advance(2 * time.Second)

	all := s.status(t.Context(), t)
	require.True(t, all.All, "there is no policy")
	require.Equal(t, "v", all.Version)
	require.EqualValues(t, 3000, all.UptimeMS)
	require.Len(t, all.Streams, 2)
	one, two := all.Streams[0], all.Streams[1]
	require.Equal(t, []string{"slow", "far/storage"}, []string{one.Job, two.Job}, "the oldest first")
	require.NotEqual(t, one.ID, two.ID)
	require.Equal(t, WaitedTime{Trainer: 3000}, one.Waited)
	require.Equal(t, WaitedTime{Storage: 2000}, two.Waited)
	require.Equal(t, ShardStatus{1, 2}, two.Shard)
	require.Equal(t, []int{1, 2}, []int{one.Lanes, two.Lanes})
	require.Equal(t, noon(), one.Started)
	require.EqualValues(t, 3000, one.OpenMS)
	require.EqualValues(t, 2000, two.OpenMS)
	require.EqualValues(t, trainingRows, one.RowsTotal)
	require.EqualValues(t, 1, one.Steps)
	require.Equal(t, "homefeed", one.Dataset)
	require.NotEmpty(t, one.Plan)
	require.EqualValues(t, 1, two.Batches)
	require.EqualValues(t, 1, two.Step)
	require.EqualValues(t, 1<<17, two.Rows)
	require.Greater(t, two.Bytes, int64(1<<20))
	var waited waits.Totals
	waited[waits.Trainer], waited[waits.Storage] = 3*time.Second, 2*time.Second
	require.Equal(t, map[string]StreamTimes{"homefeed": {Open: 5 * time.Second, Times: waited, Starved: 2 * time.Second}}, s.server.StreamTimes())

	close(gate)
	require.Equal(t, 5, bodies(t, slow))
	require.Equal(t, 5, bodies(t, far))
	<-s.ended
	require.Empty(t, s.status(t.Context(), t).Streams)
	require.Equal(t, map[string]StreamTimes{"homefeed": {Open: 5 * time.Second, Times: waited}}, s.server.StreamTimes(), "streams that ended are counted once")
}

// TestStatusShowsWaitsForSlots has a stream wait for the only slot, before it is planned.
//
// spec: status-3
func TestStatusShowsWaitsForSlots(t *testing.T) {
	t.Parallel()
	var clock hand
	s := serve(t, Options{MaxStreams: 1, Clock: clock.read, Ticks: clock.read, Loader: opens(newWorld(t).loader(), heavy(t, nil, 5))})
	first := s.begin(t.Context(), t, `{"dataset":"homefeed","job":"first"}`)
	s.eventually(t, "first", "trainer")
	second := s.begin(t.Context(), t, `{"dataset":"homefeed","job":"second"}`)
	s.eventually(t, "second", "slot")
	clock.advance(500 * time.Millisecond) // less than a stalled stream keeps its slot for
	require.Equal(t, WaitedTime{Slot: 500}, s.stream(t, "second").Waited)
	require.Equal(t, 500*time.Millisecond, s.server.StreamTimes()["homefeed"].Starved, "of the stream without a slot")
	require.Zero(t, s.stream(t, "second").Lanes)
	require.EqualValues(t, unknown, s.stream(t, "second").RowsTotal)
	require.Equal(t, &SlotStatus{Limit: 1, PerClient: 1, Taken: 1, Waiting: 1}, s.status(t.Context(), t).Slots)
	require.Equal(t, 5, bodies(t, first))
	require.Equal(t, 5, bodies(t, second))
}

// TestStatusShowsWaitsForMemory has two streams wait for the memory of batches that their clients do not take.
//
// spec: status-3
func TestStatusShowsWaitsForMemory(t *testing.T) {
	t.Parallel()
	b := budget.New(3 << 19) // a batch and a half
	under := heavy(t, b, 3)
	var clock hand
	s := serve(t, Options{Clock: clock.read, Ticks: clock.read, Budget: b, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
		ctx, stream := b.Enter(ctx, "x")
		c := under(ctx)
		released := c.released
		c.released = func() { released(); stream.Release() }
		return c
	})})
	one := s.begin(t.Context(), t, `{"dataset":"homefeed","job":"one"}`)
	s.eventually(t, "one", "memory")
	clock.advance(250 * time.Millisecond)
	got := s.status(t.Context(), t)
	require.Equal(t, WaitedTime{Memory: 250}, got.Streams[0].Waited)
	require.EqualValues(t, 3<<19, got.Memory.Limit)
	require.GreaterOrEqual(t, got.Memory.Used, int64(1<<20))
	require.GreaterOrEqual(t, got.Memory.InFlight, int64(1<<20))
	require.Equal(t, 3, bodies(t, one))
}

// TestStatusShowsParkedStreams parks a stream, which resumes.
func TestStatusShowsParkedStreams(t *testing.T) {
	t.Parallel()
	var clock hand
	under := heavy(t, nil, 5)
	s := serve(t, Options{Clock: clock.read, Ticks: clock.read, Pressed: func() bool { return true }, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
		c := under(ctx)
		c.park = func(bool) bool { return true }
		return c
	})})
	stream := s.begin(t.Context(), t, `{"dataset":"homefeed","job":"a"}`)
	s.eventually(t, "a", "trainer")
	require.False(t, s.stream(t, "a").Parked)
	require.Eventually(t, func() bool {
		clock.advance(2 * time.Second) // each time, since the network may have taken more meanwhile
		return s.stream(t, "a").Parked
	}, time.Minute, 100*time.Millisecond, "it is not parked")
	for range 4 {
		_, err := stream.Recv()
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return !s.stream(t, "a").Parked }, time.Minute, time.Millisecond, "it does not resume")
	bodies(t, stream)
}

// TestStatusShowsEachClientItsOwnStreams has clients with and without the right to see all streams. Of the streams of others,
// the server, its memory and its configuration, the others see nothing.
//
// spec: status-5, status-6
func TestStatusShowsEachClientItsOwnStreams(t *testing.T) {
	t.Parallel()
	var rules atomic.Pointer[policy.Policy]
	rules.Store(&policy.Policy{Rules: []policy.AccessRule{
		{Subjects: []string{"alice"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Status}},
		{Subjects: []string{"bob"}, Read: []string{"homefeed"}, Allow: []policy.Permission{policy.Explain, policy.Verify, policy.Cache}},
	}})
	cached := cacheOf{list: CacheList{Limit: 9, Bytes: 5, Files: make([]CachedFile, 2), BuildSides: KeptSidesList{Count: 1, Bytes: 3}, Disk: ColumnsOnDisk{Bytes: 7, Limit: 8}}}
	s := serve(t, Options{
		Authenticate: known, Policy: rules.Load, Loader: opens(newWorld(t).loader(), heavy(t, nil, 5)), Budget: budget.New(10), Cache: cached,
		Config: func() ConfigStatus { return ConfigStatus{Refused: 1, Error: "secret-file"} },
	})
	begin := func(ctx context.Context, query string) arrowflight.FlightService_DoGetClient {
		return s.begin(ctx, t, query)
	}
	streams := []arrowflight.FlightService_DoGetClient{
		begin(alice(t), `{"dataset":"homefeed","job":"secret-job"}`), begin(bob(t), `{"dataset":"homefeed","job":"bobs"}`),
	}
	require.Eventually(t, func() bool { return len(s.status(alice(t), t).Streams) == 2 }, time.Minute, time.Millisecond)
	jobs := func(ctx context.Context) (out []string) {
		for _, one := range s.status(ctx, t).Streams {
			out = append(out, one.Subject+" "+one.Job)
		}
		slices.Sort(out)
		return out
	}
	require.Equal(t, []string{"alice secret-job", "bob bobs"}, jobs(alice(t)))
	all := s.status(alice(t), t)
	require.True(t, all.All)
	require.Equal(t, &CacheStatus{Limit: 9, Bytes: 5, Files: 2, BuildSides: 1, BuildSideBytes: 3, DiskLimit: 8, DiskBytes: 7}, all.Cache)
	require.Equal(t, &ConfigStatus{Refused: 1, Error: "secret-file"}, all.Config)
	require.NotNil(t, all.Memory)
	require.NotNil(t, all.Slots)
	require.NotNil(t, all.Plans)
	text, err := s.act(bob(t), "status", []byte("{}"))
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &fields))
	require.Len(t, fields, 6, "v, version, uptime_ms, all, streams and planning: %s", text)
	require.NotContains(t, string(text), "alice")
	require.NotContains(t, string(text), "secret")
	require.Equal(t, []string{"bob bobs"}, jobs(bob(t)))
	require.Empty(t, jobs(carol(t)))

	rules.Store(&policy.Policy{Rules: []policy.AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}}}})
	require.Equal(t, []string{"alice secret-job"}, jobs(alice(t)), "the right is checked at each call")
	rules.Store(policy.Open(false))
	require.Len(t, jobs(bob(t)), 2, "without a policy, every client sees all")
	for _, one := range streams {
		require.Equal(t, 5, bodies(t, one))
	}
}

// TestClientsWithoutSubjectsSeeTheirHosts has a policy on a server without credentials.
//
// spec: status-5
func TestClientsWithoutSubjectsSeeTheirHosts(t *testing.T) {
	t.Parallel()
	rules := &policy.Policy{Rules: []policy.AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}}}}
	s := serve(t, Options{Policy: func() *policy.Policy { return rules }, Loader: opens(newWorld(t).loader(), heavy(t, nil, 5))})
	stream := s.begin(t.Context(), t, `{"dataset":"homefeed","job":"a"}`)
	s.eventually(t, "a", "trainer")
	require.False(t, s.status(t.Context(), t).All)
	require.Equal(t, 5, bodies(t, stream))
}

// cacheOf is a CacheAdmin with a list.
type cacheOf struct {
	CacheAdmin
	list CacheList
}

// List implements CacheAdmin.
func (c cacheOf) List() CacheList { return c.list }

// dropping is a CacheAdmin that lists the tables that were dropped.
type dropping struct {
	CacheAdmin
	tables []string
}

// Drop implements CacheAdmin.
func (d *dropping) Drop(_ context.Context, table string) (CacheDropped, error) {
	d.tables = append(d.tables, table)
	return CacheDropped{Columns: 1}, nil
}

// A mistake in the name of the field must not drop all tables.
//
// spec: cache-7
func TestMistakesInCacheDropDropNothing(t *testing.T) {
	t.Parallel()
	var cache dropping
	s := serve(t, Options{Loader: newWorld(t).loader(), Cache: &cache})
	for _, body := range []string{`{"tabel":"ml.events"}`, `{"table":""}`, `{"table":7}`, `[]`, `{} {}`, `x`} {
		_, err := s.act(t.Context(), "cache_drop", []byte(body))
		code, _ := flighttest.FailureOf(t, err, metadata.MD{})
		require.Equal(t, codes.InvalidArgument, code, body)
	}
	require.Empty(t, cache.tables)
	for _, body := range []string{`{"table":"ml.events"}`, `{}`, ``} {
		_, err := s.act(t.Context(), "cache_drop", []byte(body))
		require.NoError(t, err, body)
	}
	require.Equal(t, []string{"ml.events", "", ""}, cache.tables)
}

// TestStatusRefusesBodiesOfLaterVersions sends fields that this version does not have.
func TestStatusRefusesBodiesOfLaterVersions(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Loader: newWorld(t).loader()})
	for _, body := range []string{`{"rates":true}`, `[]`, `{} {}`, `x`} {
		_, err := s.act(t.Context(), "status", []byte(body))
		code, _ := flighttest.FailureOf(t, err, metadata.MD{})
		require.Equal(t, codes.InvalidArgument, code, body)
	}
	_, err := s.act(t.Context(), "status", []byte(" {} \n"))
	require.NoError(t, err)
}

// TestJobsAreLabelsAlone reads a query with and without a job: plan, rows, cursors and manifest are the same, and the job is in
// the log and the audit log.
//
// spec: status-7, status-8
func TestJobsAreLabelsAlone(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var jobs [2]string
	options, lines := auditing(t, Options{
		Loader: newWorld(t).loader(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observer: Observer{StreamBegan: func(_, job string) { jobs[0] = job }, BatchSent: func(_, job string, _, _, _ int64) { jobs[1] = job }},
	})
	s := serve(t, options)
	plain := s.readAll(t, `{"dataset":"homefeed","batch_rows":100}`)[0]
	require.Empty(t, (<-s.ended).Job)
	require.Empty(t, lines.next(t)[0].Job)
	require.NotContains(t, log.String(), "job=")
	labeled := s.readAll(t, `{"dataset":"homefeed","batch_rows":100,"job":"sweep-7/rank:0"}`)[0]
	require.Equal(t, plain, labeled)
	require.Equal(t, "sweep-7/rank:0", (<-s.ended).Job)
	require.Equal(t, [2]string{"sweep-7/rank:0", "sweep-7/rank:0"}, jobs)
	require.Equal(t, "sweep-7/rank:0", lines.next(t)[0].Job)
	require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("job=sweep-7/rank:0")), log.String())

	one, err := s.act(t.Context(), "manifest", []byte(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
	other, err := s.act(t.Context(), "manifest", []byte(`{"dataset":"homefeed","job":"j"}`))
	require.NoError(t, err)
	require.Equal(t, string(one), string(other), "a replay is another job")
	require.True(t, dataset.JobLabel("a.B_9-/:@+="))
}

// The counts of reads include rows and columns that a client may not read.
//
// spec: status-16, access-17
func TestStatusHidesReadsOfWithheldRows(t *testing.T) {
	t.Parallel()
	of := people{emails: true, foreign: true, filtered: true}
	w := of.world(t)
	all, begun, turn := w.loader(), make(chan struct{}, 2*trainingRows), make(chan struct{})
	s := serve(t, Options{Authenticate: known, Policy: func() *policy.Policy {
		limited := of.limited()
		for i := range limited.Rules {
			limited.Rules[i].Allow = nil
		}
		return limited
	}, Loader: altered{Loader: all, open: func(ctx context.Context, p loader.Planned, o loader.StreamOptions) (loader.Stream, error) {
		source, err := all.Open(ctx, p, o)
		if err != nil {
			return nil, err
		}
		waits.Read(ctx, waits.Reads{Requests: 3, Bytes: 1000})
		return gated{source, begun, turn}, nil
	}}})
	for _, c := range []struct {
		who  context.Context
		want int64
	}{{alice(t), 3}, {bob(t), 0}} {
		stream := s.begin(c.who, t, `{"dataset": "people"}`)
		_, err := stream.Recv()
		require.NoError(t, err)
		streams := s.status(c.who, t).Streams
		require.Len(t, streams, 1)
		require.Equal(t, c.want, streams[0].Reads.Requests)
		require.Equal(t, c.want > 0, streams[0].Reads.Bytes > 0)
	}
	close(turn)
}
