package ui_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/slowness"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan/shape"
)

// hostile is a name that breaks out of markup, attributes, scripts and the direction of text.
const hostile = "</td><script>alert(1)</script>\"' onload=x \u202e\x1b[2J"

// server is a server with fixed answers.
type server struct {
	status  flight.ServerStatus
	failure error
	hangs   bool       // until the context ends
	mu      sync.Mutex // pages call at the same time
	calls   []metadata.MD
	more    int  // datasets
	waits   bool // a second, before statistics are complete
	// measured are the measurements that were asked for.
	measured []decode.StatsCommand
	// queries are those whose rows were counted or verified.
	queries  []string
	proposed []decode.ProposeCommand
}

func (s *server) called(ctx context.Context) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	s.mu.Lock()
	s.calls = append(s.calls, md)
	s.mu.Unlock()
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.failure
}

func (s *server) Status(ctx context.Context) (flight.ServerStatus, json.RawMessage, error) {
	return s.status, nil, s.called(ctx)
}

func (s *server) CacheList(ctx context.Context) (flight.CacheList, error) {
	return flight.CacheList{Files: []flight.CachedFile{{Table: hostile, File: "small", Bytes: 1}, {Table: "t", File: hostile, Bytes: 5 << 20}}}, s.called(ctx)
}

func (s *server) Datasets(ctx context.Context) ([]client.Dataset, error) {
	schema := arrow.NewSchema([]arrow.Field{{Name: hostile, Type: arrow.PrimitiveTypes.Int64}}, nil)
	var more []client.Dataset
	for i := range s.more {
		more = append(more, client.Dataset{Name: "more-" + strconv.Itoa(i), Schema: schema})
	}
	return append(more, []client.Dataset{
		{Name: "homefeed", Rows: 1234567, Schema: schema, Staging: []string{hostile}},
		{Name: "broken", Rows: -1, Err: fault.New(fault.NotFound, "table %s is gone", hostile).WithRemedy("look for it")},
	}...), s.called(ctx)
}

func (s *server) Explain(ctx context.Context, query []byte, splits bool) (string, error) {
	return string(query) + strconv.FormatBool(splits) + hostile, s.called(ctx)
}

func (s *server) Shape(ctx context.Context, _ []byte) (flight.PlanShape, error) {
	return flight.PlanShape{
		Shape: shape.Shape{
			Plan: "p", Rows: 40, Splits: 3, Training: shape.Files{Count: 2, Bytes: 1 << 20, Rows: 40},
			Buckets: []shape.Bucket{{From: 0, To: 0, Rows: 10, Joined: []int64{5, 0}}, {From: 1, To: 1, Rows: 30, Joined: []int64{5, 0}}},
			Lanes:   []shape.Lane{{Rows: 40}}, Staging: []shape.Entry{{Name: hostile, Groups: 1, Files: shape.Files{Count: 7, Small: 7}}, {Name: "spare", Unread: true}},
		},
		Runs: []flight.Run{
			{Ended: time.Unix(0, 0), Matches: []flight.RunMatch{{Entry: hostile, Rows: 10, Matched: 9}}},
			{Ended: time.Unix(60, 0), Matches: []flight.RunMatch{{Entry: hostile, Rows: 10, Matched: 3}, {Entry: "new", Rows: 1}}},
		},
	}, s.called(ctx)
}

func (s *server) Tables(ctx context.Context, within string) ([]history.Description, error) {
	rows, deletes, bytes := int64(5000), int64(3), int64(7<<20)
	all := []history.Description{
		{Table: "features.a", Rows: &rows, Deletes: &deletes, Bytes: &bytes, Partition: []string{"bucket[4](id)"}, Datasets: []string{"homefeed"}},
		{Table: "features." + hostile, Error: "no " + hostile},
	}
	if within == "features.a" {
		all = all[:1]
	}
	return all, s.called(ctx)
}

func (s *server) Log(ctx context.Context, request decode.LogCommand) (history.Log, error) {
	added := int64(12)
	return history.Log{
		Table: request.Table, Branch: "main", Older: 2,
		Snapshots: []history.Entry{{Snapshot: 9007199254740993, Time: time.Unix(0, 0), Operation: "append", Writer: hostile, RowsAdded: &added, Branches: []string{hostile}}},
		OtherRefs: []history.NamedRef{{Name: hostile, Snapshot: 7}},
	}, s.called(ctx)
}

func stream(id, job string) flight.StreamStatus {
	return flight.StreamStatus{
		ID: id, Job: job, Dataset: "homefeed", Plan: "p", Shard: flight.ShardStatus{Of: 1}, OpenMS: 10_000, Rows: 500, RowsTotal: 1000, Step: 1, Steps: 4,
		Bytes: 100, Mapped: 20, Way: "network", Waiting: "storage", Waited: flight.WaitedTime{Trainer: 1000, Storage: 2500, Memory: 1, Stream: 2, Slot: 3},
	}
}

// handler returns the pages of servers, which every request may see.
func handler(t *testing.T, servers ...*server) http.Handler {
	t.Helper()
	options := ui.Options{Read: servers[0], Measure: servers[0], Count: servers[0], Propose: servers[0], Version: "v"}
	for i, one := range servers {
		options.Replicas = append(options.Replicas, ui.Replica{Name: "replica-" + strconv.Itoa(i), Watched: one})
	}
	pages, err := ui.New(options)
	require.NoError(t, err)
	return pages
}

// get returns the answer to a request.
func get(t *testing.T, from http.Handler, path string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	from.ServeHTTP(w, r)
	answer := w.Result()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

// all are the paths of all pages.
func all() []string {
	return []string{
		"/", "/memory", "/datasets", "/datasets/homefeed", "/datasets/broken", "/tables", "/tables/features.a", "/datasets/none", "/tables/none", "/backfills", "/backfills/new",
		"/datasets/homefeed/statistics", "/tables/features.a/statistics",
	}
}

// Names that come from tables and clients cannot add markup, scripts or attributes to a page.
//
// spec: ui-1
func TestNamesCannotAddMarkup(t *testing.T) {
	s := &server{status: flight.ServerStatus{
		Version: hostile, All: true, Memory: &flight.MemoryStatus{Limit: 100, Used: 50}, Cache: &flight.CacheStatus{},
		Config: &flight.ConfigStatus{Error: hostile}, Streams: []flight.StreamStatus{stream("1", hostile)},
	}}
	pages := handler(t, s)
	for _, path := range append(all(), "/?find="+"%3Cscript%3E", "/datasets/homefeed?splits") {
		_, body := get(t, pages, path)
		require.NotContains(t, body, "<script>", path)
		require.NotContains(t, body, "onload=x \u202e", path)
		require.NotContains(t, body, "\x1b", path)
		require.NotRegexp(t, `<[a-z]+( [^>]*)?\s(style|on[a-z]+)=`, body, path)
	}
}

// The content security policy allows no inline scripts and no requests to other addresses.
//
// spec: ui-2
func TestPagesForbidOtherScripts(t *testing.T) {
	pages := handler(t, &server{})
	for _, path := range append(all(), "/assets/page.js", "/none") {
		answer, _ := get(t, pages, path)
		policy := answer.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'", path)
		require.Contains(t, policy, "frame-ancestors 'none'", path)
		require.NotContains(t, policy, "unsafe", path)
		require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	}
}

// The page of streams has the streams of all replicas, and names the replicas that do not answer.
//
// spec: ui-3
func TestStreamsOfAllReplicas(t *testing.T) {
	first := &server{status: flight.ServerStatus{Version: "1", All: true, Streams: []flight.StreamStatus{stream("1", "sweep-a"), stream("2", "sweep-b")}}}
	for i := range first.status.Streams {
		first.status.Streams[i].Limit = &slowness.Limit{Cause: slowness.SmallReads, Share: 0.25, Why: "9 requests", Remedy: slowness.SmallReads.Remedy()}
	}
	plan := flight.PlanningStatus{ID: "p", Job: "morning", Dataset: "homefeed", OpenMS: 9000, Waiting: "tables"}
	first.status.Planning = []flight.PlanningStatus{plan}
	second := &server{status: flight.ServerStatus{Version: "2", All: true, Streams: []flight.StreamStatus{stream("3", "nightly")}, Planning: []flight.PlanningStatus{plan}}}
	dead := &server{failure: fault.New(fault.Unavailable, "connection refused")}
	pages := handler(t, first, second, dead)
	answer, body := get(t, pages, "/")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, body, "<td>small reads 25%</td>")
	require.Equal(t, 1, strings.Count(body, "morning"), "two addresses of one server")
	require.Contains(t, body, `<td class="n">9s</td><td>waits for catalogs and metadata files</td>`)
	require.Equal(t, 1, strings.Count(body, "small reads: storage is fast"), "each limit is explained once")
	for _, text := range []string{"sweep-a", "sweep-b", "nightly", "replica-2", "connection refused", "trainer 10%, storage 25%", "waits for storage", "25 %"} {
		require.Contains(t, body, text)
	}
	require.Contains(t, body, "data-counts=\"{&#34;1&#34;:[10000,500,120,1000,2500,1,2,3],&#34;2&#34;:")

	_, body = get(t, pages, "/?find=NIGHT")
	require.Contains(t, body, "nightly")
	require.NotContains(t, body, "sweep-a")
	require.Contains(t, body, "&#34;1&#34;", "the curves are those of all streams")
}

// A replica that hangs does not hide the others.
//
// spec: ui-3
func TestAReplicaThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := flight.ServerStatus{All: true, Memory: &flight.MemoryStatus{Limit: 100, Used: 50}, Streams: []flight.StreamStatus{stream("1", "nightly")}}
		pages := handler(t, &server{status: status}, &server{hangs: true})
		for path, text := range map[string]string{"/": "nightly", "/memory": "50 B of 100 B"} {
			answer, body := get(t, pages, path)
			require.Equal(t, http.StatusOK, answer.StatusCode, path)
			require.Contains(t, body, text)
			require.Contains(t, body, "It does not respond: <bdi>the server does not answer in time</bdi>")
		}
	})
}

// A viewer who may not see a server gets the server's refusal, and one without the right status sees only the own streams.
//
// spec: ui-4
func TestViewersWithoutRights(t *testing.T) {
	answer, body := get(t, handler(t, &server{failure: fault.New(fault.Forbidden, "no").WithRemedy("ask for a rule")}), "/")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Contains(t, body, "ask for a rule")
	_, body = get(t, handler(t, &server{}), "/")
	require.Contains(t, body, "Only your own streams are shown")
	_, body = get(t, handler(t, &server{}), "/memory")
	require.Contains(t, body, "allow: [status]")
}

// A part of a page is its main element.
//
// spec: ui-5
func TestPartIsMain(t *testing.T) {
	_, body := get(t, handler(t, &server{}), "/?part=1")
	require.True(t, strings.HasPrefix(body, "<main data-every=\"2000\">"), body)
	require.NotContains(t, body, "<head>")
}

// Pages show datasets, plans, tables and snapshots as the server lists them.
//
// spec: ui-6
func TestDatasetsAndTables(t *testing.T) {
	pages := handler(t, &server{})
	_, body := get(t, pages, "/datasets")
	require.Contains(t, body, "1,234,567")
	_, body = get(t, pages, "/datasets/homefeed")
	require.Contains(t, body, "{&#34;dataset&#34;:&#34;homefeed&#34;}false")
	for _, text := range []string{"the largest has 30, 1.5 × the mean", "from 30% to 90%", "1 file group", "not read", "1970-01-01 00:01:00"} {
		require.Contains(t, body, text)
	}
	_, body = get(t, pages, "/datasets/homefeed?splits")
	require.Contains(t, body, "{&#34;dataset&#34;:&#34;homefeed&#34;}true")
	_, body = get(t, pages, "/datasets/broken")
	require.Contains(t, body, "look for it")
	answer, body := get(t, pages, "/datasets/homefee")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.Contains(t, body, "homefeed")
	_, body = get(t, pages, "/tables")
	require.Contains(t, body, "5,000, 3 deletes")
	_, body = get(t, pages, "/tables/features.a")
	for _, text := range []string{"9007199254740993", "12 rows", "2 older", "?branch="} {
		require.Contains(t, body, text)
	}
	answer, _ = get(t, pages, "/tables/features.b")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

// Cached files are sorted by their size.
func TestMemoryListsLargestFirst(t *testing.T) {
	s := &server{status: flight.ServerStatus{All: true, Memory: &flight.MemoryStatus{Limit: 100 << 20, Used: 60 << 20, Idle: 10 << 20, InFlight: 20 << 20}, Cache: &flight.CacheStatus{}}}
	_, body := get(t, handler(t, s), "/memory")
	require.Less(t, strings.Index(body, "5.0 MiB</td>"), strings.Index(body, "small"))
	require.Contains(t, body, "{&#34;name&#34;:&#34;streams at work&#34;,&#34;value&#34;:31457280}")
}

// The script has at most 400 lines, and scripts do not change without their tag.
func TestAssets(t *testing.T) {
	pages := handler(t, &server{})
	answer, body := get(t, pages, "/assets/page.js")
	require.LessOrEqual(t, strings.Count(body, "\n"), 400)
	require.Equal(t, "text/javascript; charset=utf-8", answer.Header.Get("Content-Type"))
	again, _ := get(t, pages, "/assets/page.js", "If-None-Match", answer.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Len(t, answer.Header.Get("ETag"), 66)
}
