package engine

import (
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/penstock/penstock/cmd/penstock/keyfile"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/internal/telemetry/otlp"
	"github.com/penstock/penstock/internal/trace"
)

// flushTimeout is how long a server that ends waits for the collector to take the last traces.
const flushTimeout = 2 * time.Second

// keptSpans is the number of spans that the Tracer keeps. A decoded batch has a few, and some are ahead of each stream.
const keptSpans = 16 << 10

// openTraces sets the Tracer, if the settings name a collector.
func (e *Engine) openTraces(s config.Server, metrics *telemetry.Metrics, log *slog.Logger) error {
	if s.Trace.Address == "" {
		return nil
	}
	headers, err := traceHeaders(s.TraceHeaders)
	if err != nil {
		return err
	}
	ca, err := traceCA(s)
	if err != nil {
		return err
	}
	exporter, err := otlp.New(otlp.Options{Address: s.Trace.Address, TLS: s.Trace.TLS, CA: ca, Headers: headers, Version: metrics.Version(), Budget: e.Budget, Logger: log})
	if err != nil {
		return err
	}
	e.closers = append(e.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		exporter.Close(ctx)
	})
	held, err := e.Budget.Reserve("the spans of steps", keptSpans*trace.SpanBytes)
	if err != nil {
		return err
	}
	e.closers = append(e.closers, held.Release)
	metrics.Traces(exporter.Stats)
	e.Tracer = trace.New(trace.Options{Every: int64(s.TraceEvery), Clock: clock.Now, Sink: exporter, Spans: keptSpans})
	log.Info("steps are traced", "collector", s.Trace.Address, "every", s.TraceEvery)
	return nil
}

// traceCA reads the file of trace_ca; nil: there is none.
func traceCA(s config.Server) (*x509.CertPool, error) {
	if s.TraceCA == "" {
		return nil, nil //nolint:nilnil // the CAs of the system are used
	}
	if !s.Trace.TLS {
		return nil, fault.InvalidField("trace_ca", "the collector is reached without TLS").WithRemedy("begin trace with https://")
	}
	text, err := os.ReadFile(s.TraceCA)
	if err != nil {
		return nil, fault.InvalidField("trace_ca", "%v", err)
	}
	out := x509.NewCertPool()
	if !out.AppendCertsFromPEM(text) {
		return nil, fault.InvalidField("trace_ca", "there is no certificate in %s", s.TraceCA).In("", s.TraceCA).WithRemedy("name a file with certificates in PEM form")
	}
	return out, nil
}

// traceHeaders reads the file of trace_headers: a header on each line that is not empty and does not begin with #.
func traceHeaders(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // there are no headers
	}
	text, err := keyfile.Read("trace_headers", path, keyfile.Secret)
	if err != nil {
		return nil, err
	}
	out, number := map[string]string{}, 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name = strings.ToLower(strings.TrimSpace(name))
		if !found || name == "" || strings.ContainsFunc(name, notInHeaders) || strings.HasPrefix(name, "grpc-") {
			return nil, fault.InvalidField("trace_headers", "line %d of %s is not of the form NAME: VALUE", number, path).In("", path).
				WithRemedy("write a line such as authorization: Bearer TOKEN")
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}

// notInHeaders reports whether the names of headers may not have a character.
func notInHeaders(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.", c)
}
