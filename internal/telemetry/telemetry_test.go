package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache/disk"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/stream"
)

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, slog.LevelWarn, "json")
	log.Info("left out")
	log.Warn("said", "took", 1500*time.Microsecond, "rows", int64(9007199254740993))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "said", line["msg"])
	require.Equal(t, "1.5ms", line["took"])
	require.Contains(t, out.String(), "9007199254740993")

	out.Reset()
	telemetry.NewLogger(&out, slog.LevelDebug, "text").Debug("said", "took", time.Second)
	require.Contains(t, out.String(), "level=DEBUG msg=said took=1s")
}

// No line shows a password, whatever it is handed: texts, errors of others, in
// groups or beforehand.
func TestLogsShowNoSecrets(t *testing.T) {
	const uri = "a://user:hunter2@host/db?token=hunter2"
	for _, form := range []string{"text", "json"} {
		var out bytes.Buffer
		log := telemetry.NewLogger(&out, slog.LevelInfo, form).With("peer", uri)
		log.Info("said of "+uri, "uri", uri, "error", errors.New("dial "+uri), slog.Group("group", "uri", uri))
		require.Contains(t, out.String(), "xxxxx@host")
		require.NotContains(t, out.String(), "hunter2")
	}
}

// TestLoggerIsBounded: whatever a client sends, a line has 4 KiB of each
// attribute, in either form, and says what is omitted.
func TestLoggerIsBounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	runes := strings.Repeat("é", 2500) // 5000 bytes, two each
	var faults []fault.Field
	for range 1000 {
		faults = append(faults, fault.Field{Field: "columns[0]", Message: "there is no such column"})
	}
	many := fault.Fields(faults)
	for _, form := range []string{"json", "text"} {
		var out bytes.Buffer
		log := telemetry.NewLogger(&out, slog.LevelDebug, form)
		log.With("with", long).WithGroup("group").Debug(long, "text", long, "error", many, "wrapped", fmt.Errorf("plan: %w", many),
			"runes", "a"+runes, "bytes", []byte(long), "list", slices.Repeat([]string{"name"}, 5000), "valued", valued(long),
			slog.Group("inner", "deep", long), "short", "as it is", "rows", 7, "nothing", nil, "small", []string{"a"})
		line := out.String()
		require.Less(t, len(line), 12*4500, form)
		require.Equal(t, 10, strings.Count(line, " bytes more)"), line)
		require.Contains(t, line, "x… (904 bytes more)")
		require.Contains(t, line, "é… (906 bytes more)", "between runes")
		require.Contains(t, line, "as it is")
		require.True(t, utf8.ValidString(line))

		out.Reset()
		telemetry.NewLogger(&out, slog.LevelDebug, form).Error("call", "stack", long, "exact", strings.Repeat("y", 4096))
		require.Contains(t, out.String(), long, "a stack is longer")
		require.NotContains(t, out.String(), "bytes more")
		out.Reset()
		telemetry.NewLogger(&out, slog.LevelDebug, form).Error("call", "stack", strings.Repeat(long, 20))
		require.Contains(t, out.String(), "(34464 bytes more)", "and has a bound too")
	}
	var out bytes.Buffer
	telemetry.NewLogger(&out, slog.LevelDebug, "json").Info("said", "small", []string{"a"}, "error", fault.New(fault.Invalid, "wrong"), "none", (*fault.Error)(nil))
	require.Contains(t, out.String(), `"small":["a"],"error":"wrong"`, "what is short keeps its form")
}

// valued is a value that says what is logged of it.
type valued string

func (v valued) LogValue() slog.Value { return slog.StringValue(string(v)) }

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer
}

// metrics returns the lines of our own metrics.
func metrics(t *testing.T, h http.Handler) []string {
	t.Helper()
	answer := get(h, "/metrics")
	require.Equal(t, http.StatusOK, answer.Code)
	var out []string
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "penstock_") && !strings.Contains(line, "_bucket{") && !strings.Contains(line, "_seconds") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

// spec: status-12, status-19
func TestHealthForProbes(t *testing.T) {
	m := telemetry.NewMetrics("v1.2.3")
	h := m.Handler(false)
	probes := m.HealthHandler()
	for _, c := range []struct {
		set  func()
		code int
		text string
	}{
		{func() {}, http.StatusServiceUnavailable, "not ready\n"},
		{func() { m.SetReady(true) }, http.StatusOK, "serving\n"},
		{func() { m.SetReady(false) }, http.StatusServiceUnavailable, "not ready\n"},
	} {
		c.set()
		for _, handler := range []http.Handler{h, probes} {
			answer := get(handler, telemetry.HealthPath)
			require.Equal(t, c.code, answer.Code)
			require.Equal(t, c.text, answer.Body.String())
		}
	}
	for _, path := range []string{"/", "/metrics", "/debug/pprof/", telemetry.HealthPath + "/"} {
		require.Equal(t, http.StatusNotFound, get(probes, path).Code, path)
	}
}

func TestMetrics(t *testing.T) {
	m := telemetry.NewMetrics("v1.2.3")
	b := budget.New(1000)
	m.Budget(b)
	calls := store.NewCalls(store.Options{})
	m.Storage(calls)
	ctx, cancel := context.WithCancel(t.Context())
	gate := make(chan struct{})
	defer close(gate)
	_, err := store.Call(ctx, calls, "read", "/a", func(context.Context) (int, error) {
		cancel()
		<-gate
		return 0, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	first, err := b.Reserve("a test", 300)
	require.NoError(t, err)
	defer first.Release()
	second, err := b.Reserve("a test", 200)
	require.NoError(t, err)
	second.Release()

	m.SetReady(true)
	o := m.Observer()
	o.StreamBegan("home", "")
	o.StreamBegan("home", "")
	o.StreamBegan("", "")
	o.StreamSetBack("home")
	o.BatchSent("home", "", 10, 100, 0)
	o.BatchSent("home", "", 5, 60, 1000)
	o.BatchSent("", "", 1, 2, 0)
	history := stream.StagingReport{
		Counts: joiner.Counts{Rows: 10, Matched: 7, Missing: 3, NullKeys: 1, Duplicates: 2}, BytesRead: 4096, SpilledBytes: 512,
	}
	staging := map[string]stream.StagingReport{"history": history}
	o.StreamEnded(flight.StreamEnd{Dataset: "home", End: "corrupt", Rows: 10, Batches: 1, Bytes: 100, Took: time.Second, Staging: staging})
	o.StreamEnded(flight.StreamEnd{End: "ok", Rows: 10, Batches: 1, Bytes: 100, Took: time.Second, Staging: staging})
	o.Stalled(flight.Stall{Dataset: "home", Plan: "p", Rows: 9, Batches: 2, Took: 3 * time.Second, Waited: 500 * time.Millisecond})
	o.Stalled(flight.Stall{Dataset: "home", Plan: "q", Rows: 1, Batches: 1, Took: time.Second})
	o.CallEnded("DoGet", "corrupt", time.Second)
	o.CallEnded("GetFlightInfo", "ok", time.Millisecond)
	require.Equal(t, []string{
		`penstock_batches_sent_total{dataset="(inline)"} 1`,
		`penstock_batches_sent_total{dataset="home"} 2`,
		`penstock_build_info{version="v1.2.3"} 1`,
		`penstock_bytes_sent_total{dataset="(inline)"} 2`,
		`penstock_bytes_sent_total{dataset="home"} 160`,
		`penstock_calls_total{end="corrupt",method="DoGet"} 1`,
		`penstock_calls_total{end="corrupt",method="GetFlightInfo"} 0`,
		`penstock_calls_total{end="exhausted",method="DoGet"} 0`,
		`penstock_calls_total{end="exhausted",method="GetFlightInfo"} 0`,
		`penstock_calls_total{end="internal",method="DoGet"} 0`,
		`penstock_calls_total{end="internal",method="GetFlightInfo"} 0`,
		`penstock_calls_total{end="ok",method="GetFlightInfo"} 1`,
		`penstock_calls_total{end="unavailable",method="DoGet"} 0`,
		`penstock_calls_total{end="unavailable",method="GetFlightInfo"} 0`,
		`penstock_mapped_bytes_total{dataset="(inline)"} 0`,
		`penstock_mapped_bytes_total{dataset="home"} 1000`,
		`penstock_memory_budget_bytes 1000`,
		`penstock_memory_idle_bytes 0`,
		`penstock_memory_reserved_bytes 300`,
		`penstock_memory_reserved_peak_bytes 500`,
		`penstock_rows_sent_total{dataset="(inline)"} 1`,
		`penstock_rows_sent_total{dataset="home"} 15`,
		`penstock_serving 1`,
		`penstock_staging_duplicates_total{dataset="(inline)",staging="(inline)"} 2`,
		`penstock_staging_duplicates_total{dataset="home",staging="history"} 2`,
		`penstock_staging_read_bytes_total{dataset="(inline)",staging="(inline)"} 4096`,
		`penstock_staging_read_bytes_total{dataset="home",staging="history"} 4096`,
		`penstock_staging_rows_total{dataset="(inline)",result="matched",staging="(inline)"} 7`,
		`penstock_staging_rows_total{dataset="(inline)",result="missing",staging="(inline)"} 2`,
		`penstock_staging_rows_total{dataset="(inline)",result="null_key",staging="(inline)"} 1`,
		`penstock_staging_rows_total{dataset="home",result="matched",staging="history"} 7`,
		`penstock_staging_rows_total{dataset="home",result="missing",staging="history"} 2`,
		`penstock_staging_rows_total{dataset="home",result="null_key",staging="history"} 1`,
		`penstock_staging_spilled_bytes_total{dataset="(inline)",staging="(inline)"} 512`,
		`penstock_staging_spilled_bytes_total{dataset="home",staging="history"} 512`,
		`penstock_storage_calls_left_behind 1`,
		`penstock_streams_ended_total{dataset="(inline)",end="corrupt"} 0`,
		`penstock_streams_ended_total{dataset="(inline)",end="exhausted"} 0`,
		`penstock_streams_ended_total{dataset="(inline)",end="internal"} 0`,
		`penstock_streams_ended_total{dataset="(inline)",end="ok"} 1`,
		`penstock_streams_ended_total{dataset="(inline)",end="unavailable"} 0`,
		`penstock_streams_ended_total{dataset="home",end="corrupt"} 1`,
		`penstock_streams_ended_total{dataset="home",end="exhausted"} 0`,
		`penstock_streams_ended_total{dataset="home",end="internal"} 0`,
		`penstock_streams_ended_total{dataset="home",end="unavailable"} 0`,
		`penstock_streams_open{dataset="(inline)"} 0`,
		`penstock_streams_open{dataset="home"} 1`,
		`penstock_streams_set_back_total{dataset="(inline)"} 0`,
		`penstock_streams_set_back_total{dataset="home"} 1`,
		`penstock_trainer_batches_total{dataset="home"} 3`,
		`penstock_trainer_rows_total{dataset="home"} 10`,
	}, metrics(t, m.Handler(false)))
	page := get(m.Handler(false), "/metrics").Body.String()
	require.Contains(t, page, "go_goroutines")
	require.Contains(t, page, `penstock_trainer_seconds_total{dataset="home"} 4`)
	require.Contains(t, page, `penstock_trainer_waited_seconds_total{dataset="home"} 0.5`)
}

// Nothing is global: two servers in one process count apart.
// TestDiskTier: each number of the disk tier has its own metric.
func TestDiskTier(t *testing.T) {
	m := telemetry.NewMetrics("v")
	m.DiskTier(func() disk.TierStats {
		return disk.TierStats{
			Folder: disk.FolderStats{Chunks: 1, Bytes: 2, Limit: 3, Queued: 4},
			Reads:  disk.ReadStats{Hits: 5, HitBytes: 6, Saved: 7_500_000, Misses: 8, NoMemory: 9, Damaged: 10, Failed: 11, Canceled: 12},
			Writes: disk.WriteStats{Chunks: 13, Bytes: 14, Evicted: 15, Present: 16, Dropped: 17, Unstored: 18, Failed: 19},
		}
	})
	require.Subset(t, metrics(t, m.Handler(false)), []string{
		`penstock_disk_cache_bytes 2`,
		`penstock_disk_cache_chunks 1`,
		`penstock_disk_cache_evicted_total 15`,
		`penstock_disk_cache_limit_bytes 3`,
		`penstock_disk_cache_queued_bytes 4`,
		`penstock_disk_cache_read_bytes_total 6`,
		`penstock_disk_cache_reads_total{result="canceled"} 12`,
		`penstock_disk_cache_reads_total{result="damaged"} 10`,
		`penstock_disk_cache_reads_total{result="failed"} 11`,
		`penstock_disk_cache_reads_total{result="hit"} 5`,
		`penstock_disk_cache_reads_total{result="memory"} 9`,
		`penstock_disk_cache_reads_total{result="miss"} 8`,
		`penstock_disk_cache_writes_total{result="dropped"} 17`,
		`penstock_disk_cache_writes_total{result="failed"} 19`,
		`penstock_disk_cache_writes_total{result="present"} 16`,
		`penstock_disk_cache_writes_total{result="unstored"} 18`,
		`penstock_disk_cache_writes_total{result="written"} 13`,
		`penstock_disk_cache_written_bytes_total 14`,
	})
	require.Contains(t, get(m.Handler(false), "/metrics").Body.String(), "penstock_disk_cache_saved_seconds_total 7.5")
}

func TestMetricsAreApart(t *testing.T) {
	one, other := telemetry.NewMetrics("one"), telemetry.NewMetrics("other")
	one.Observer().StreamBegan("home", "")
	require.NotContains(t, metrics(t, other.Handler(false)), `penstock_streams_open{dataset="home"} 1`)
}

// TestJobsHaveBoundedLabels counts the streams of more jobs than metrics have labels for.
//
// spec: status-9
func TestJobsHaveBoundedLabels(t *testing.T) {
	m := telemetry.NewMetrics("v")
	o := m.Observer()
	for i := range 102 {
		job := fmt.Sprintf("job-%03d", i)
		o.StreamBegan("home", job)
		o.BatchSent("home", job, 2, 10, 5)
	}
	o.StreamBegan("home", "job-000")
	o.StreamEnded(flight.StreamEnd{Dataset: "home", Job: "job-101"})
	lines := metrics(t, m.Handler(false))
	require.Subset(t, lines, []string{
		`penstock_job_bytes_sent_total{job="job-000"} 15`,
		`penstock_job_bytes_sent_total{job="other"} 30`,
		`penstock_job_rows_sent_total{job="job-099"} 2`,
		`penstock_job_rows_sent_total{job="other"} 4`,
		`penstock_job_streams_open{job="job-000"} 2`,
		`penstock_job_streams_open{job="other"} 1`,
	})
	text := strings.Join(lines, "\n")
	require.Equal(t, 101, strings.Count(text, "penstock_job_rows_sent_total{"))
	require.NotContains(t, text, "job-100")
}

// TestStreamTimes has a dataset whose streams wait, and one stream whose query has its own dataset.
func TestStreamTimes(t *testing.T) {
	m := telemetry.NewMetrics("v")
	m.Streams(places{Server: flight.New(flight.Options{Clock: time.Now, MaxStreams: 8}), times: map[string]flight.StreamTimes{
		"home": {Open: 4 * time.Second, Times: waits.Totals{waits.Trainer: 1500 * time.Millisecond, waits.Storage: time.Second}, Starved: 2 * time.Second},
		"":     {Open: time.Second},
	}})
	page := get(m.Handler(false), "/metrics").Body.String()
	for _, line := range []string{
		`penstock_stream_open_seconds_total{dataset="home"} 4`,
		`penstock_stream_open_seconds_total{dataset="(inline)"} 1`,
		`penstock_stream_waited_seconds_total{cause="trainer",dataset="home"} 1.5`,
		`penstock_stream_waited_seconds_total{cause="storage",dataset="home"} 1`,
		`penstock_stream_waited_seconds_total{cause="memory",dataset="home"} 0`,
		`penstock_stream_starved_seconds{dataset="home"} 2`,
		`penstock_stream_starved_seconds{dataset="(inline)"} 0`,
		`penstock_stream_slots 8`,
		`penstock_stream_slots_taken 0`,
		`penstock_memory_in_flight_bytes 0`,
	} {
		require.Contains(t, page, line+"\n")
	}
}

// TestMatchRateIsThatOfTheLastStream has a stream with few rows after one with enough.
func TestMatchRateIsThatOfTheLastStream(t *testing.T) {
	m := telemetry.NewMetrics("v")
	ends := func(rows, matched int64) {
		m.Observer().StreamEnded(flight.StreamEnd{Dataset: "home", End: "ok", Staging: map[string]stream.StagingReport{
			"history": {Counts: joiner.Counts{Rows: rows, Matched: matched, Missing: rows - matched}},
		}})
	}
	ends(1000, 900)
	ends(4000, 3000)
	ends(999, 0)
	require.Contains(t, metrics(t, m.Handler(false)), `penstock_staging_match_rate{dataset="home",staging="history"} 0.75`)
}

// TestFilesAndKeys has a group of files that was refused, and the times of a certificate and of the issuer's keys.
func TestFilesAndKeys(t *testing.T) {
	m := telemetry.NewMetrics("v")
	files := m.Files()
	files("the tokens", true)
	files("the policy", true)
	files("the policy", false)
	m.CertificateExpiry(func() time.Time { return time.Unix(1000, 0) })
	m.IssuerKeys(func() time.Time { return time.Unix(10, 0) })
	page := get(m.Handler(false), "/metrics").Body.String()
	for _, line := range []string{
		`penstock_files_current{files="tokens"} 1`, `penstock_files_current{files="policy"} 0`,
		`penstock_certificate_expiry_timestamp_seconds 1000`, `penstock_issuer_keys_fetched_timestamp_seconds 10`,
	} {
		require.Contains(t, page, line+"\n")
	}
}

// TestLookupsAreCountedByOutcome leaves out lookups that were canceled.
func TestLookupsAreCountedByOutcome(t *testing.T) {
	m := telemetry.NewMetrics("v")
	count := m.Lookups([]string{"lake", "other"})
	count("lake", time.Second, nil)
	count("lake", time.Second, fault.New(fault.Unavailable, "x"))
	count("lake", time.Second, fmt.Errorf("ask: %w", context.Canceled))
	require.Subset(t, metrics(t, m.Handler(false)), []string{
		`penstock_catalog_lookups_total{catalog="lake",outcome="ok"} 1`,
		`penstock_catalog_lookups_total{catalog="lake",outcome="unavailable"} 1`,
		`penstock_catalog_lookups_total{catalog="other",outcome="ok"} 0`,
	})
	require.Contains(t, get(m.Handler(false), "/metrics").Body.String(), `penstock_catalog_lookup_seconds_count{catalog="lake"} 2`)
}

// TestIndexLinksWhatThereIs reads the page at the root, and follows its links.
//
// spec: status-10
func TestIndexLinksWhatThereIs(t *testing.T) {
	m := telemetry.NewMetrics("v")
	m.SetReady(true)
	for profiles, links := range map[bool]int{true: 3, false: 2} {
		answer := get(m.Handler(profiles), "/")
		require.Equal(t, http.StatusOK, answer.Code)
		found := regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(answer.Body.String(), -1)
		require.Len(t, found, links)
		for _, link := range found {
			require.Equal(t, http.StatusOK, get(m.Handler(profiles), link[1]).Code, link[1])
		}
	}
	require.Equal(t, http.StatusNotFound, get(m.Handler(true), "/other").Code)
}

func TestProfilesOnlyWhenAskedFor(t *testing.T) {
	m := telemetry.NewMetrics("")
	require.Equal(t, http.StatusNotFound, get(m.Handler(false), "/debug/pprof/").Code)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
		require.Equal(t, http.StatusOK, get(m.Handler(true), path).Code, path)
	}
}

// TestS3Requests are counted by what they were for and how they ended.
func TestS3Requests(t *testing.T) {
	m := telemetry.NewMetrics("v")
	told := m.Requests()
	told(s3.Request{Store: "s3", Operation: s3.OperationRead, Outcome: s3.Throttled, Took: time.Second})
	told(s3.Request{Store: "s3", Operation: s3.OperationRead, Outcome: s3.OK, Bytes: 100, Again: true, Took: time.Second})
	text := get(m.Handler(false), "/metrics").Body.String()
	for _, line := range []string{
		`penstock_s3_requests_total{operation="read",outcome="ok"} 1`,
		`penstock_s3_requests_total{operation="read",outcome="throttled"} 1`,
		`penstock_s3_retries_total{operation="read"} 1`,
		`penstock_s3_read_bytes_total{operation="read"} 100`,
		`penstock_s3_request_seconds_count{operation="read"} 2`,
	} {
		require.Contains(t, text, line)
	}
}

// TestProfilesAreBounded: no request keeps a profile running for longer than a minute, also not one whose parameters are in its
// body.
//
// spec: access-29
func TestProfilesAreBounded(t *testing.T) {
	handler := telemetry.NewMetrics("v").Handler(true)
	for _, path := range []string{"profile", "trace", "heap", "mutex"} {
		for _, seconds := range []string{"61", "999999", "1e300", "inf", "nan", "60.5", "0x1p9"} {
			require.Equal(t, http.StatusBadRequest, get(handler, "/debug/pprof/"+path+"?seconds="+seconds).Code, "%s %s", path, seconds)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/debug/pprof/"+path, strings.NewReader("seconds=999999"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, path)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel() // so that nothing waits
	for _, path := range []string{"profile?seconds=60", "trace?seconds=60", "trace"} {
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "/debug/pprof/"+path, http.NoBody))
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, strings.HasPrefix(path, "trace"), w.deadlines > 0, "a client that does not read a trace must not make it collect in memory")
	}
}

// deadlined is an answer that counts the deadlines that were set for it.
type deadlined struct {
	*httptest.ResponseRecorder
	deadlines int
}

// SetWriteDeadline implements the method that http.ResponseController calls.
func (d *deadlined) SetWriteDeadline(time.Time) error {
	d.deadlines++
	return nil
}
