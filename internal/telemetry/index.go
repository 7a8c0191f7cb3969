package telemetry

import (
	"io"
	"net/http"
	"strings"
)

// index returns the handler of the page at / of the metrics' address, which lists the other pages.
func index(profiles bool) http.HandlerFunc {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<meta charset=\"utf-8\">\n<title>penstock</title>\n<h1>penstock</h1>\n<ul>\n")
	line := func(path, text string) {
		b.WriteString(`<li><a href="` + path + `">` + path + "</a>: " + text + "</li>\n")
	}
	line("/metrics", "metrics for Prometheus")
	line(HealthPath, "whether the server takes calls, for probes")
	if profiles {
		line("/debug/pprof/", "profiles of the Go runtime")
	} else {
		b.WriteString("<li>/debug/pprof/: off; the setting <code>pprof</code> turns it on</li>\n")
	}
	b.WriteString("</ul>\n<p>At the server's own address: <code>penstock status --uri URI</code> lists the streams and what they wait for,\n" +
		"<code>penstock health --uri URI</code> checks that the server takes calls.</p>\n")
	page := b.String()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, page) // a failure means that the client has gone
	}
}
