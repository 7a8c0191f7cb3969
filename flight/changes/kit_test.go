package changes_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/flight/ticket/tickettest"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/loader/dataset"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon returns the time of the tests' clock.
func noon() time.Time { return time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC) }

// named is a loader with the dataset homefeed, from which nothing is read.
type named struct{ flight.Loader }

func (named) Datasets() []dataset.Dataset {
	return []dataset.Dataset{{
		Name: "homefeed", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.impressions"},
		Staging: []dataset.Staging{{Table: "features.history", Name: "history", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}}}},
	}}
}

// served is a running server with a client.
type served struct {
	arrowflight.Client
	server  *flight.Server
	address string
}

// serveTables runs a server that writes to tables, on the loopback until the test ends.
func serveTables(t testing.TB, w changes.TableWriter, o flight.Options) *served {
	t.Helper()
	keys := tickettest.Keys(t)
	o.Loader, o.Tables, o.Keys = named{}, w, func() *ticket.Keys { return keys }
	if o.Clock == nil {
		o.Clock = noon
	}
	s := &served{server: flight.New(o)}
	s.address = flighttest.Serve(t, s.server)
	s.Client = flighttest.Dial(t, s.address)
	return s
}

// quiet waits until no call runs.
func (s *served) quiet(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return s.server.Streams() == 0 }, time.Minute, time.Millisecond)
}

// waiting returns once a number of calls wait for a slot.
func (s *served) waiting(t testing.TB, calls int) {
	t.Helper()
	require.Eventually(t, func() bool { _, waiting := s.server.Writes(); return waiting == calls }, time.Minute, time.Millisecond)
}

// auditLines receives the lines of an audit log.
type auditLines chan audit.Line

// Write implements io.Writer.
func (a auditLines) Write(p []byte) (int, error) {
	for text := range strings.Lines(string(p)) {
		var one audit.Line
		if err := json.Unmarshal(bytes.TrimSpace([]byte(text)), &one); err != nil {
			return 0, err
		}
		a <- one
	}
	return len(p), nil
}

// auditing returns options with an audit log.
func auditing(t *testing.T) (flight.Options, auditLines) {
	t.Helper()
	lines := make(auditLines, 1024)
	log, err := audit.Open(audit.Options{Stderr: lines, Clock: noon, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return flight.Options{Audit: log}, lines
}
