package telemetry_test

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/cache/disk"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/segment"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/internal/telemetry/otlp"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/catalog/pintag"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/scan/chunkcache"
	"github.com/penstock/penstock/loader/stream"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// places is a server with the given times of streams.
type places struct {
	*flight.Server
	times map[string]flight.StreamTimes
}

func (p places) StreamTimes() map[string]flight.StreamTimes { return p.times }

// registered are the metrics of ours, as a server shows them that has served.
func registered(t *testing.T) (names []string, table string) {
	t.Helper()
	m := telemetry.NewMetrics("v")
	m.Budget(budget.New(1))
	m.Storage(store.NewCalls(store.Options{}))
	m.Streams(places{Server: flight.New(flight.Options{Clock: time.Now}), times: map[string]flight.StreamTimes{"d": {}}})
	m.Lookups([]string{"default"})("default", time.Second, nil)
	m.Spool(0, func() spool.Stats { return spool.Stats{} })
	m.Files()("the tokens", true)
	m.CertificateExpiry(time.Now)
	m.IssuerKeys(time.Now)
	m.Mapped(local.New(segment.NewLender(nil, 0), time.Now, slog.New(slog.DiscardHandler)).Stats)
	m.DiskTier(func() disk.TierStats { return disk.TierStats{} })
	m.Sharing(fanout.New(fanout.Options{}).Stats)
	m.Cache(telemetry.CacheSource{
		Columns: func() chunkcache.CacheStats { return chunkcache.CacheStats{} },
		Hits:    func() map[string]chunkcache.TableHits { return map[string]chunkcache.TableHits{"t": {}} },
		Sides:   func() cache.KeptStats { return cache.KeptStats{} },
	})
	m.Requests()(s3.Request{Store: "s3", Operation: s3.OperationRead, Outcome: s3.OK, Bytes: 1, Again: true, Took: time.Second})
	m.PinTags()(pintag.Look{})
	m.Reloads()(telemetry.ReloadPartly)
	m.Traces(func() otlp.Stats { return otlp.Stats{} })
	o := m.Observer()
	o.StreamBegan("d", "j")
	o.BatchSent("d", "j", 1, 1, 1)
	o.StreamEnded(flight.StreamEnd{Dataset: "d", End: "ok", Took: time.Second, Staging: map[string]stream.StagingReport{"s": {Counts: joiner.Counts{Rows: 1000}}}})
	o.Stalled(flight.Stall{Dataset: "d", Rows: 1, Batches: 1, Took: time.Second, Waited: time.Second})
	o.CallEnded("DoGet", "ok", time.Second)
	answer := get(m.Handler(false), "/metrics")
	require.Equal(t, http.StatusOK, answer.Code)
	kinds, helps, labels := map[string]string{}, map[string]string{}, map[string][]string{}
	label := regexp.MustCompile(`(\w+)="`)
	for line := range strings.Lines(answer.Body.String()) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP penstock_"); ok {
			name, help, _ := strings.Cut(rest, " ")
			names, helps["penstock_"+name] = append(names, "penstock_"+name), help
		} else if rest, ok := strings.CutPrefix(line, "# TYPE penstock_"); ok {
			name, kind, _ := strings.Cut(rest, " ")
			kinds["penstock_"+name] = kind
		} else if strings.HasPrefix(line, "penstock_") {
			name := names[len(names)-1]
			for _, found := range label.FindAllStringSubmatch(line, -1) {
				if found[1] != "le" && !slices.Contains(labels[name], found[1]) {
					labels[name] = append(labels[name], found[1])
				}
			}
		}
	}
	for _, described := range m.Described() {
		if strings.HasPrefix(described, "penstock_") {
			assert.Contains(t, names, described, "nothing above gives it a value")
		}
	}
	var b strings.Builder
	b.WriteString("| metric | kind | labels | what it is |\n|---|---|---|---|\n")
	for _, name := range names {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, kinds[name], strings.Join(labels[name], ", "), helps[name])
	}
	return names, b.String()
}

// TestMetricsPage: the page of metrics has every metric, and no page names
// one that is not there.
func TestMetricsPage(t *testing.T) {
	const page, from, to = "../../docs/metrics.md", "<!-- metrics: ", "<!-- end of metrics -->\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), from)
	require.True(t, found)
	note, rest, found := strings.Cut(rest, "\n")
	require.True(t, found)
	_, after, found := strings.Cut(rest, to)
	require.True(t, found)
	names, table := registered(t)
	require.Greater(t, len(names), 15)
	if t.Failed() {
		return // a page that lacks metrics is not written
	}
	pages := []string{before, after}
	for _, pattern := range []string{"../../docs/*.md", "../../*.md", "../../python/README.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, other := range found {
			if other == page {
				continue
			}
			more, err := os.ReadFile(other)
			require.NoError(t, err)
			pages = append(pages, string(more))
		}
	}
	for _, named := range regexp.MustCompile(`penstock_\w+`).FindAllString(strings.Join(pages, "\n"), -1) {
		for _, series := range []string{"_bucket", "_sum", "_count"} { // of a histogram
			if of := strings.TrimSuffix(named, series); slices.Contains(names, of) {
				named = of
			}
		}
		require.Contains(t, names, named)
	}
	want := before + from + note + "\n" + table + to + after
	if *rewrite {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./internal/telemetry -rewrite")
}
