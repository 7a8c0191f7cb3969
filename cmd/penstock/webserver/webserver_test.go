package webserver

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page answers every request with "page".
var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })

// spec: access-28
func TestLoopbackHasItsOwnNamesOnly(t *testing.T) {
	for host, want := range map[string]int{
		"": http.StatusOK, "localhost": http.StatusOK, "LOCALHOST:9100": http.StatusOK, "127.0.0.1:9100": http.StatusOK, "127.8.8.8": http.StatusOK,
		"[::1]:9100": http.StatusOK, "[::1]": http.StatusOK, "10.1.2.3:9100": http.StatusOK, "metrics.example.com:1": http.StatusOK,
		"evil.example.com": http.StatusMisdirectedRequest, "evil.example.com:9100": http.StatusMisdirectedRequest, "localhost.example.com": http.StatusMisdirectedRequest,
		"127.0.0.1.example.com:9100": http.StatusMisdirectedRequest, "metrics.example.com.evil": http.StatusMisdirectedRequest, "127.0.0.1@evil:80": http.StatusMisdirectedRequest,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		ForLoopback("metrics.example.com", page).ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
		if want != http.StatusOK {
			require.Contains(t, w.Body.String(), "→")
			require.NotContains(t, w.Body.String(), "page")
		}
	}
}

// spec: access-28
func TestPagesOfOtherSitesLoadNothing(t *testing.T) {
	for _, c := range []struct {
		site, mode, shown string
		method            string
		want              int
	}{
		{"", "", "", http.MethodGet, http.StatusOK},
		{"none", "navigate", "document", http.MethodGet, http.StatusOK},
		{"same-origin", "no-cors", "empty", http.MethodGet, http.StatusOK},
		{"cross-site", "navigate", "document", http.MethodGet, http.StatusOK},
		{"cross-site", "navigate", "document", http.MethodHead, http.StatusOK},
		{"cross-site", "navigate", "document", http.MethodPost, http.StatusForbidden},
		{"cross-site", "navigate", "iframe", http.MethodGet, http.StatusForbidden},
		{"cross-site", "navigate", "object", http.MethodGet, http.StatusForbidden},
		{"cross-site", "navigate", "", http.MethodGet, http.StatusForbidden},
		{"cross-site", "no-cors", "image", http.MethodGet, http.StatusForbidden},
		{"cross-site", "cors", "empty", http.MethodGet, http.StatusForbidden},
		{"cross-site", "", "", http.MethodGet, http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/metrics", http.NoBody)
		r.Header.Set("Sec-Fetch-Site", c.site)
		r.Header.Set("Sec-Fetch-Mode", c.mode)
		r.Header.Set("Sec-Fetch-Dest", c.shown)
		w := httptest.NewRecorder()
		New(page, maxConnections, slog.New(slog.DiscardHandler)).Handler.ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, "%+v", c)
	}
}

const maxConnections = 64

// TestNewConnectionsReplaceTheOldest checks that silent connections do not block new ones: the
// oldest is closed for a new one.
//
// spec: access-29
func TestNewConnectionsReplaceTheOldest(t *testing.T) {
	server := New(page, maxConnections, slog.New(slog.DiscardHandler))
	require.Positive(t, server.ReadTimeout)
	require.Positive(t, server.WriteTimeout)
	require.Positive(t, server.IdleTimeout)
	on, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(on) }()

	silent := make([]net.Conn, maxConnections)
	for i := range silent {
		silent[i], err = (&net.Dialer{}).DialContext(t.Context(), "tcp", on.Addr().String())
		require.NoError(t, err)
	}
	// By the time of this answer, the server has accepted all earlier connections.
	require.Equal(t, http.StatusOK, get(t, on.Addr().String()))
	_, err = silent[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, silent[1].SetReadDeadline(time.Now()))
	_, err = silent[1].Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is still open")
	for _, conn := range silent {
		require.NoError(t, conn.Close())
	}
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
}

// A request that is being answered is not cut as long as there are connections without one.
//
// spec: access-29
func TestNewConnectionsSpareRequests(t *testing.T) {
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			asked <- struct{}{}
			<-answer
		}
		page.ServeHTTP(w, r)
	})
	server := New(slow, 2, slog.New(slog.DiscardHandler))
	on, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(on) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", on.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	<-asked
	silent := make([]net.Conn, 3)
	for i := range silent {
		silent[i], err = (&net.Dialer{}).DialContext(t.Context(), "tcp", on.Addr().String())
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusOK, get(t, on.Addr().String()))
	close(answer)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.NoError(t, got.Body.Close())
	for _, one := range append(silent, conn) {
		require.NoError(t, one.Close())
	}
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
}

// get sends a request on a new connection, and returns the status of the answer.
func get(t *testing.T, address string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}
