// Package webserver is the HTTP server of metrics and pages. It limits connections, and refuses requests that
// a web page of another site makes.
//
// Metrics on the loopback need no credentials. Therefore every web page that a browser on the same
// machine shows can send requests to them. Normally, the browser hides the answers from pages of
// other sites. It does not if an attacker uses DNS rebinding, which makes the name of the page's
// site resolve to the loopback. The Host header of such a request is that name, never an IP
// address, so the server refuses unknown names.
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
	// readTimeout is how long a client may take to send a request.
	readTimeout = 10 * time.Second
	// writeTimeout is how long a client may take to receive an answer, in addition to the duration
	// of a profile.
	writeTimeout = 30 * time.Second
	// idleTimeout is how long a connection may wait for the next request. Prometheus sends one every 15 to 60 seconds.
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 64 << 10 // the maximum body of a request; only requests to /debug/pprof/symbol have one: addresses of functions
)

// New returns a server for a handler, with at most the given number of connections. The server logs failures of connections.
func New(handler http.Handler, connections int, log *slog.Logger) *http.Server {
	open := openConnections{most: connections}
	return &http.Server{
		Handler:     http.MaxBytesHandler(sameSite(handler), maxBodyBytes),
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: open.changed, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// sameSite refuses the requests that pages of other sites cause, for example to load an image or to show a frame. Such
// a page could not see the answer, but it could start a costly profile. Requests that follow a link
// on another site are allowed: the browser then shows the answer instead of that page.
func sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		follows := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && !follows {
			http.Error(w, "pages of other sites may not load this", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ForLoopback returns a handler that refuses requests with an unknown name in the Host header. The
// known names are localhost and the given one: that in the address of the metrics, or that of the proxy in front of pages.
func ForLoopback(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host, name) {
			http.Error(w, "this server is on the loopback and does not have the name in the request's Host header\n"+
				"  → use localhost, an IP address, or the host name in the setting metrics or in --behind-proxy; a proxy must send one of them as Host",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a Host header is valid for a server on the loopback. Valid headers contain
// an IP address, localhost, or the given name. A request without the header is valid too: it is not
// from a browser, because browsers always send the header.
func local(host, name string) bool {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return host == "" || err == nil || strings.EqualFold(host, "localhost") || strings.EqualFold(host, name)
}

// openConnections holds the open connections of a server. They are sorted by the time of their last
// change of state, the earliest first.
type openConnections struct {
	most int

	mu   sync.Mutex
	open []openConnection
}

// openConnection is a connection. An active one has begun to send a request that is not answered.
type openConnection struct {
	net.Conn
	active bool
}

// changed records that a connection has a new state. If there are too many connections, it closes the first one without a request,
// or else the first one, so that slow clients cannot lock out others.
func (c *openConnections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(other openConnection) bool { return other.Conn == conn })
	if state == http.StateClosed || state == http.StateHijacked {
		return
	}
	c.open = append(c.open, openConnection{conn, state == http.StateActive})
	if len(c.open) > c.most {
		first := max(0, slices.IndexFunc(c.open[:c.most], func(other openConnection) bool { return !other.active }))
		go c.open[first].Close() //nolint:errcheck // in a goroutine, because closing a TLS connection takes time if the client does not read
		c.open = slices.Delete(c.open, first, first+1)
	}
}
