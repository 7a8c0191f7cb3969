// Package webserver is the HTTP server of metrics: what a connection may take, and which requests of browsers are refused.
//
// Metrics on the loopback need no credentials, so a browser on the same machine can reach them, and each page that it shows can
// send requests. Browsers keep answers from pages of other sites, except after DNS rebinding: the page's own name is made to
// resolve to the loopback. Such requests have that name as their Host. Requests with an IP address as Host cannot be made so.
package webserver

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// readTimeout bounds how long a client may take to send a request.
	readTimeout = 10 * time.Second
	// writeTimeout bounds how long a client may take to receive an answer. The time that a profile covers is added.
	writeTimeout = 30 * time.Second
	// idleTimeout is how long a connection may wait for the next request. Prometheus sends one every 15 to 60 seconds.
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 64 << 10 // of requests: only addresses of functions are sent (/debug/pprof/symbol)
	maxConnections = 64
)

// New returns a server of a handler, which logs failures of connections.
func New(handler http.Handler, log *slog.Logger) *http.Server {
	var open openConnections
	return &http.Server{
		Handler:     http.MaxBytesHandler(sameSite(handler), maxBodyBytes),
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: open.changed, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// sameSite refuses what pages of other sites load, such as images: the answer is kept from them, but a profile costs time.
// Links from other sites may be followed.
func sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "pages of other sites may not load this", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ForLoopback refuses requests whose Host a server on the loopback does not have: any name but localhost and the one in its
// setting.
func ForLoopback(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host, name) {
			http.Error(w, "this server is on the loopback and does not have the name in the request's Host header\n"+
				"  → use localhost, an IP address, or the host of the setting metrics in the URL; a proxy must send one of them as Host",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a Host header is that of a server on the loopback with a name. Browsers always send the header.
func local(host, name string) bool {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return host == "" || err == nil || strings.EqualFold(host, "localhost") || strings.EqualFold(host, name)
}

// openConnections are the open connections of a server, those first that have been in their state for the longest.
type openConnections struct {
	mu   sync.Mutex
	open []net.Conn
}

// changed takes the new state of a connection. If there are more than maxConnections, the first one is closed: slow clients
// lose to new ones, so that they do not keep Prometheus out.
func (c *openConnections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(other net.Conn) bool { return other == conn })
	if state == http.StateClosed || state == http.StateHijacked {
		return
	}
	c.open = append(c.open, conn)
	if len(c.open) > maxConnections {
		go c.open[0].Close() //nolint:errcheck // closing TLS takes time if the client does not read
		c.open = slices.Delete(c.open, 0, 1)
	}
}
