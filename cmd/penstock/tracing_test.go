package main

import (
	"crypto/tls"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/internal/certtest"
	"github.com/penstock/penstock/internal/telemetry/otlp/otlptest"
)

// rootsOf returns the spans of steps by their number.
func rootsOf(spans []otlptest.Span) map[int64]otlptest.Span {
	out := map[int64]otlptest.Span{}
	for _, s := range spans {
		if s.Name == "penstock.step" {
			out[s.Numbers["penstock.step"]] = s
		}
	}
	return out
}

// readTraced reads a query with headers.
func readTraced(t *testing.T, c *child, query string, headers ...string) {
	t.Helper()
	client, err := arrowflight.NewClientWithMiddleware(c.address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer client.Close() //nolint:errcheck // it was only read from
	info, err := client.GetFlightInfo(t.Context(), &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(query)})
	require.NoError(t, err)
	rows, err := client.DoGet(metadata.AppendToOutgoingContext(t.Context(), headers...), info.GetEndpoint()[0].GetTicket())
	require.NoError(t, err)
	require.ErrorIs(t, drained(rows), io.EOF)
}

// stop ends a server, which sends its last traces.
func (c *child) stop(t *testing.T) {
	t.Helper()
	c.signal(t)
	code, _ := c.wait(t)
	require.Equal(t, exitOK, code, c.stderr)
}

// TestStepsAreTraced reads a stream whose steps are traced, with and without sharing of batches, and follows a step to the requests
// for its rows.
//
// spec: trace-1, trace-3, trace-4, trace-6, trace-8
func TestStepsAreTraced(t *testing.T) {
	l := readLake(t)
	for _, sharing := range []string{"0", "16MiB"} {
		t.Run(sharing, func(t *testing.T) {
			c := otlptest.Start(t)
			headers := filepath.Join(t.TempDir(), "headers")
			require.NoError(t, os.WriteFile(headers, []byte("# of the collector\nAuthorization: Bearer canary-token\n"), 0o600))
			server := start(t, "--config", l.config, "--trace", "http://"+c.Address, "--trace-every", "1", "--trace-headers", headers, "--share-batches", sharing)
			const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			readTraced(t, server, `{"dataset": "home", "batch_rows": 2, "columns": ["item", "country"], "filter": "item <> 'canary-constant'", "job": "j"}`, "traceparent", parent)
			server.stop(t)
			require.Equal(t, []string{"Bearer canary-token"}, c.Headers().Get("authorization"))

			all := c.Spans()
			steps := rootsOf(all)
			require.Equal(t, []int64{1, 2, 3}, slices.Sorted(maps.Keys(steps)))
			byID, names := map[string]otlptest.Span{}, map[string]int{}
			for _, s := range all {
				byID[s.Trace+s.ID] = s
				names[s.Name]++
				require.False(t, s.End.Before(s.Begin), s)
			}
			for name, least := range map[string]int{"penstock.step": 3, "penstock.join": 3, "penstock.cut": 3, "penstock.build_side": 1, "penstock.build": 1, "penstock.decode": 3, "penstock.request": 3} {
				require.GreaterOrEqual(t, names[name], least, name)
			}
			linked := map[string]int{}
			for _, s := range all {
				if s.Parent != "" {
					require.Contains(t, byID, s.Trace+s.Parent, s)
				}
				for _, link := range s.Links {
					require.Equal(t, "penstock.step", s.Name)
					linked[byID[link.Trace+link.Span].Name]++
				}
			}
			require.Equal(t, 3, linked[""], "the trainer's span")
			require.Positive(t, linked["penstock.decode"])
			require.Positive(t, linked["penstock.build"])
			require.Equal(t, otlptest.Link{Trace: "0af7651916cd43dd8448eb211c80319c", Span: "b7ad6b7169203331"}, steps[1].Links[0])
			require.Equal(t, "home", steps[1].Texts["penstock.dataset"])
			require.EqualValues(t, 2, steps[2].Numbers["penstock.rows"])
			require.Positive(t, steps[2].Numbers["penstock.bytes"])
			for _, canary := range []string{"canary", "plain", "with,comma", "nïcode", "9007199254740993", l.dir} { // of the filter, the headers and the rows
				require.NotContains(t, c.Text(), canary)
			}
		})
	}
}

// TestOnlySampledStepsAreTraced reads streams of which no step is traced.
//
// spec: trace-1, trace-2
func TestOnlySampledStepsAreTraced(t *testing.T) {
	l := readLake(t)
	c := otlptest.Start(t)
	server := start(t, "--config", l.config, "--trace", "http://"+c.Address, "--trace-every", "100")
	readTraced(t, server, `{"dataset": "large", "batch_rows": 100}`, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	readTraced(t, server, `{"dataset": "home"}`)
	readTraced(t, server, `{"dataset": "large", "batch_rows": 50}`, "traceparent", "nonsense")
	server.stop(t)
	require.Equal(t, []int64{100, 200}, slices.Sorted(maps.Keys(rootsOf(c.Spans()))))
}

// TestWaitsOfStepsAreThoseOfTheStream compares the waits in traces with those in the log.
//
// spec: trace-7
func TestWaitsOfStepsAreThoseOfTheStream(t *testing.T) {
	l := readLake(t)
	c := otlptest.Start(t)
	server := start(t, "--config", l.config, "--trace", "http://"+c.Address, "--trace-every", "1")
	readTraced(t, server, `{"dataset": "large", "batch_rows": 1000}`)
	server.stop(t)
	said := server.stderr.find(t, "stream ends")
	waited, _ := said["waited"].(map[string]any)
	at, _ := said["time"].(string)
	ended, err := time.Parse(time.RFC3339Nano, at)
	require.NoError(t, err)
	var delivered time.Time // the last batch
	got := map[string]time.Duration{}
	for _, s := range c.Spans() {
		if s.Name == "penstock.step" && s.End.After(delivered) {
			delivered = s.End
		}
		if s.Name == "penstock.wait" && s.Texts["penstock.cause"] != "consumer" {
			got[s.Texts["penstock.cause"]] += s.End.Sub(s.Begin)
		}
	}
	require.NotEmpty(t, got["storage"])
	for cause, took := range got {
		text, _ := waited[cause].(string)
		want, err := time.ParseDuration(text)
		require.NoError(t, err, "%s %s", cause, took)
		require.LessOrEqual(t, took, want+time.Microsecond, cause)
		require.LessOrEqual(t, want-took, ended.Sub(delivered)+time.Microsecond, "%s: what follows the last batch is in no step", cause)
	}
}

// TestDeadCollectorStopsNoCall reads with a collector that does not exist.
//
// spec: trace-9
func TestDeadCollectorStopsNoCall(t *testing.T) {
	gone, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	l := readLake(t)
	server := start(t, "--config", l.config, "--metrics", "127.0.0.1:0", "--trace", "http://"+gone.Addr().String(), "--trace-every", "1")
	readTraced(t, server, `{"dataset": "large", "batch_rows": 10}`)
	address, _ := server.stderr.find(t, "metrics")["listen"].(string)
	require.Eventually(t, func() bool {
		return !strings.Contains(scrape(t, address), `penstock_trace_spans_total{result="failed"} 0`)
	}, time.Minute, 10*time.Millisecond)
	require.Contains(t, scrape(t, address), `penstock_trace_spans_total{result="sent"} 0`)
	server.stop(t)
}

// TestTraceSettings checks which collectors are accepted.
func TestTraceSettings(t *testing.T) {
	l := readLake(t)
	for flags, want := range map[string]string{
		"--trace http://c":                                 "write c:4317",
		"--trace c:4317":                                   "is not of the form",
		"--trace https://u:pass@c:4317":                    "trace_headers",
		"--trace http://c:4317/v1/traces":                  "is not of the form",
		"--trace http://c:4317 --trace-every 0":            "is not a number from 1 on",
		"--trace-headers /x":                               "trace is not set",
		"--trace http://192.0.2.1:4317 --trace-headers /x": "https://",
	} {
		got := run(t, append([]string{"serve", "--config", l.config}, strings.Fields(flags)...)...)
		require.Equal(t, exitFailure, got.code, flags)
		require.Contains(t, got.stderr, want, flags)
		require.NotContains(t, got.stderr, "pass@")
	}
}

// TestCollectorsWithTLS has collectors with a certificate that the server trusts, and with others. The server serves on, and says once why
// it sends no traces.
//
// spec: trace-9
func TestCollectorsWithTLS(t *testing.T) {
	l, now := readLake(t), time.Now()
	for name, c := range map[string]struct {
		host    string
		made    time.Time
		foreign bool // the server trusts another CA
		says    string
	}{
		"trusted":         {"127.0.0.1", now, false, ""},
		"another CA":      {"127.0.0.1", now, true, "certificate signed by unknown authority"},
		"expired":         {"127.0.0.1", now.Add(-2 * time.Hour), false, "certificate has expired or is not yet valid"},
		"of another host": {"collector.test", now, false, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, certtest.Make(folder, []string{c.host}, c.made, time.Hour))
			pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certtest.ServerCert), filepath.Join(folder, certtest.ServerKey))
			require.NoError(t, err)
			collector := otlptest.Start(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
			if c.foreign {
				folder = t.TempDir()
				require.NoError(t, certtest.Make(folder, []string{c.host}, c.made, time.Hour))
			}
			server := start(t, "--config", l.config, "--trace", "https://"+collector.Address, "--trace-ca", filepath.Join(folder, certtest.CA), "--trace-every", "1")
			readTraced(t, server, `{"dataset": "large", "batch_rows": 100}`)
			const failure = "traces cannot be sent, and are dropped until they can"
			if c.says != "" {
				require.Contains(t, server.stderr.find(t, failure)["error"], c.says)
			}
			readTraced(t, server, `{"dataset": "large", "batch_rows": 100}`)
			server.stop(t)
			if c.says == "" {
				require.NotEmpty(t, rootsOf(collector.Spans()))
				require.NotContains(t, server.stderr.String(), failure)
				return
			}
			require.Empty(t, collector.Spans())
			require.Equal(t, 1, strings.Count(server.stderr.String(), failure), server.stderr)
		})
	}
}
