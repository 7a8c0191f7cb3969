package telemetry

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"
)

const (
	// maxProfileSeconds is the longest time that a profile or trace covers.
	maxProfileSeconds = 60
	// traceStall is how long the client of a trace may read nothing before the trace ends. While
	// the client does not read, the trace's records are kept in memory.
	traceStall = 5 * time.Second
)

// addProfiles serves the profiles of the Go runtime at /debug/pprof/.
func addProfiles(mux *http.ServeMux) {
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": trace,
	} {
		// Without other methods, pprof reads its parameters from the URL alone.
		mux.Handle("GET "+path, bounded(handler))
	}
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
}

// bounded refuses profiles of more than maxProfileSeconds. If the number of seconds is not a
// number, pprof ignores or refuses it.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
		if within := seconds <= maxProfileSeconds; err == nil && !within { // NaN is not within the limit
			http.Error(w, fmt.Sprintf("seconds is at most %d", maxProfileSeconds), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trace records an execution trace while the client reads it.
func trace(w http.ResponseWriter, r *http.Request) {
	pprof.Trace(&promptWriter{w, http.NewResponseController(w)}, r)
}

// promptWriter fails once the client has read nothing for traceStall.
type promptWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write implements io.Writer.
func (w *promptWriter) Write(p []byte) (int, error) {
	// This fails for a ResponseWriter without deadlines, as in tests.
	_ = w.control.SetWriteDeadline(time.Now().Add(traceStall)) //nolint:forbidigo // the deadline of a connection is in real time
	return w.ResponseWriter.Write(p)
}

// Unwrap lets pprof set the deadline of the whole response.
func (w *promptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
