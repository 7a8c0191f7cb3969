package changes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/failure"
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = listener.Addr().String()
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, s.server.Serve(listener)) })
	s.Client = dial(t, s.address)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.server.Shutdown(ctx)
		running.Wait()
	})
	return s
}

func dial(t testing.TB, address string) arrowflight.Client {
	client, err := arrowflight.NewClientWithMiddleware(address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
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

// command is a descriptor that carries a command.
func command(text string) *arrowflight.FlightDescriptor {
	return &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(text)}
}

// failureOf returns the code and the details of an error, as a client decodes them.
func failureOf(t testing.TB, err error, trailer metadata.MD) (codes.Code, failure.Details) {
	require.Error(t, err)
	var d failure.Details
	if text := trailer.Get(failure.TrailerKey); len(text) > 0 {
		require.Len(t, text, 1)
		require.NoError(t, json.Unmarshal([]byte(text[0]), &d))
	}
	return status.Code(err), d
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
