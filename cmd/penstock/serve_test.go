package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func TestPortInUse(t *testing.T) {
	l := readLake(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	address := taken.Addr().String()
	got := run(t, "serve", "--config", l.config, "--listen", address)
	require.Equal(t, ran{exitFailure, "", "penstock: listen " + address + ": another program uses that port\n" +
		"  → stop the other program, or choose another port; port 0 takes a free one\n"}, got)
	got = run(t, "serve", "--config", l.config, "--listen", "127.0.0.1:0", "--metrics", address)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "metrics "+address)
	require.Empty(t, got.stdout, "no address of a server that does not run")
}

// Without TLS and credentials, addresses that other machines can reach require --insecure. The
// address for streams also requires a key file.
func TestListenForOtherMachinesNeedsConsentAndKeys(t *testing.T) {
	l := readLake(t)
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		got := run(t, "serve", "--config", l.config, "--listen", address)
		require.Equal(t, exitFailure, got.code)
		require.Contains(t, got.stderr, "can be reached from other machines")
		require.Contains(t, got.stderr, "--insecure")
	}
	got := run(t, "serve", "--config", l.config, "--listen", "0.0.0.0:0", "--insecure")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "ticket_keys")
	got = run(t, "serve", "--config", l.config, "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0")
	require.Contains(t, got.stderr, "metrics: 0.0.0.0:0 can be reached")

	l.file(t, "tickets.keys", "k1 "+strings.Repeat("QUJD", 16)+"\n")
	server := start(t, "--config", l.config, "--listen", "0.0.0.0:0", "--insecure", "--ticket-keys", filepath.Join(l.dir, "tickets.keys"))
	_, port, err := net.SplitHostPort(server.address)
	require.NoError(t, err)
	require.NotEqual(t, "0", port)
	require.Zero(t, run(t, "datasets", "home", "--uri", "127.0.0.1:"+port).code)
	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
}

func TestBadTicketKeysAreRefused(t *testing.T) {
	l := readLake(t)
	got := run(t, "serve", "--config", l.config, "--ticket-keys", "none.keys")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "none.keys")
	got = run(t, "serve", "--config", l.config, "--ticket-keys", l.file(t, "bad.keys", "k1 short\n"))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "bad.keys")
	require.Contains(t, got.stderr, "line 1")
}

// idle opens a stream with more rows than the buffers between server and client hold, and reads
// only the first message.
func idle(t *testing.T, c *child) arrowflight.FlightService_DoGetClient {
	t.Helper()
	client, err := arrowflight.NewClientWithMiddleware(c.address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	described, err := client.GetFlightInfo(ctx, &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"large"}})
	require.NoError(t, err)
	rows, err := client.DoGet(ctx, described.GetEndpoint()[0].GetTicket())
	require.NoError(t, err)
	_, err = rows.Recv()
	require.NoError(t, err)
	c.stderr.find(t, "stream begins")
	return rows
}

// drained reads a stream to its end, and returns the final error, which is io.EOF after a complete
// stream.
func drained(rows arrowflight.FlightService_DoGetClient) error {
	for {
		if _, err := rows.Recv(); err != nil {
			return err
		}
	}
}

// If all streams end within the drain time, the server exits with 0.
func TestSignalLetsStreamsFinish(t *testing.T) {
	server := start(t, "--config", readLake(t).config, "--drain", "1h")
	rows := idle(t, server)
	server.signal(t)
	server.stderr.find(t, "shutting down")
	require.ErrorIs(t, drained(rows), io.EOF)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
	require.Equal(t, true, server.stderr.find(t, "shut down")["clean"])
}

// A stream that does not end within the drain time fails as Unavailable.
func TestSignalEndsStreams(t *testing.T) {
	server := start(t, "--config", readLake(t).config, "--drain", "1ms")
	rows := idle(t, server)
	server.signal(t)
	code, _ := server.wait(t)
	require.Equal(t, exitFailure, code, server.stderr)
	require.Contains(t, server.stderr.String(), "1 stream ended early")
	require.Equal(t, codes.Unavailable, status.Code(drained(rows)))
}

// A second signal ends the server without waiting for the drain time.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	server := start(t, "--config", readLake(t).config, "--drain", "1h")
	rows := idle(t, server)
	server.signal(t)
	server.stderr.find(t, "shutting down")
	server.signal(t)
	code, _ := server.wait(t)
	require.Equal(t, exitFailure, code, server.stderr)
	require.Equal(t, codes.Unavailable, status.Code(drained(rows)))
}

// spec: access-28
func TestMetrics(t *testing.T) {
	server := start(t, "--config", readLake(t).config, "--metrics", "127.0.0.1:0", "--pprof", "--cache-memory", "0")
	require.Zero(t, run(t, "cat", "home", "--uri", server.uri()).code)
	require.Equal(t, exitFailure, run(t, "cat", "hme", "--uri", server.uri()).code)
	server.stderr.find(t, "stream ends")
	address := server.stderr.find(t, "metrics")["listen"].(string)
	get := func(path string) string { return fetch(t, "http://"+address+path) }
	const free = "penstock_memory_reserved_bytes 0\n"
	require.Eventually(t, func() bool { return strings.Contains(get("/metrics"), free) }, time.Minute, 10*time.Millisecond,
		"batches in flight are released once they have arrived")
	text := get("/metrics")
	for _, line := range []string{
		`penstock_rows_sent_total{dataset="home"} 7`,
		`penstock_streams_open{dataset="home"} 0`,
		`penstock_streams_ended_total{dataset="home",end="ok"} 1`,
		`penstock_calls_total{end="not found",method="GetFlightInfo"} 1`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Contains(t, get("/debug/pprof/"), "goroutine")
	rebound, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	require.NoError(t, err)
	rebound.Host = "evil.example.com"
	rebound.Close = true
	answer, err := http.DefaultClient.Do(rebound)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusMisdirectedRequest, answer.StatusCode)
	require.Equal(t, "gone", server.stderr.find(t, "dataset cannot be read")["dataset"])
	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
}

// scrape returns the metrics page of a server.
func scrape(t *testing.T, address string) string {
	t.Helper()
	return fetch(t, "http://"+address+"/metrics")
}

// fetch returns the body of a page.
func fetch(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}
