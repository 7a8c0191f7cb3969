package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
)

// liar is a server that sends two rows and then a last message chosen by the test.
type liar struct {
	arrowflight.BaseFlightServer
	schema *arrow.Schema
	last   string // app_metadata of the last message; "": no message
}

func (l *liar) GetFlightInfo(context.Context, *arrowflight.FlightDescriptor) (*arrowflight.FlightInfo, error) {
	return &arrowflight.FlightInfo{
		Schema:   arrowflight.SerializeSchema(l.schema, memory.DefaultAllocator),
		Endpoint: []*arrowflight.FlightEndpoint{{Ticket: &arrowflight.Ticket{Ticket: []byte("t")}}},
	}, nil
}

func (l *liar) DoGet(_ *arrowflight.Ticket, stream arrowflight.FlightService_DoGetServer) error {
	w := arrowflight.NewRecordWriter(stream, ipc.WithSchema(l.schema))
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, l.schema, strings.NewReader(`[{"n": 1}, {"n": 2}]`))
	if err != nil {
		return err
	}
	if err := w.Write(batch); err != nil {
		return err
	}
	if l.last == "" {
		return w.Close()
	}
	return stream.Send(&arrowflight.FlightData{AppMetadata: []byte(l.last)})
}

// A stream is incomplete if it ends without a report, or if its report has a different row count.
func TestStreamWithoutItsReportFails(t *testing.T) {
	for name, c := range map[string]struct {
		last string
		code int
		says string
	}{
		"none":      {"", exitFailure, "ended without its report: rows may be missing"},
		"no report": {`{"v": 1}`, exitFailure, "ended without its report: rows may be missing"},
		"more rows": {`{"report": {"rows": 3}}`, exitFailure, "it sent 3 rows, 2 arrived"},
		"all rows":  {`{"report": {"rows": 2, "staging": {"s": {"rows": 2, "matched": 1}}}}`, exitOK, "2 rows; s matched 1 of 2\n"},
		"warning":   {`{"report": {"rows": 2, "staging": {"s": {"rows": 2, "matched": 0, "warning": "none match"}}}}`, exitOK, "2 rows; s matched 0 of 2\nwarning: s: none match\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server := arrowflight.NewServerWithMiddleware(nil)
			require.NoError(t, server.Init("127.0.0.1:0"))
			server.RegisterFlightService(&liar{schema: arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil), last: c.last})
			ended := make(chan error, 1)
			go func() { ended <- server.Serve() }()
			got := run(t, "cat", "any", "--format", "jsonl", "--uri", fmt.Sprintf("grpc://%s", server.Addr()))
			require.Equal(t, c.code, got.code)
			require.Contains(t, got.stderr, c.says)
			server.Shutdown()
			require.NoError(t, <-ended)
		})
	}
}

// If the server stops between the plan and the rows, the error is Unavailable, not an interruption.
func TestServerGoneBeforeTheRowsIsUnavailable(t *testing.T) {
	server := arrowflight.NewServerWithMiddleware(nil)
	require.NoError(t, server.Init("127.0.0.1:0"))
	server.RegisterFlightService(&liar{schema: arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }()
	c, err := client.Dial("grpc://"+server.Addr().String(), client.Security{}, version())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	rows, err := c.Open(t.Context(), []byte(`{"dataset": "any"}`))
	require.NoError(t, err)
	server.Shutdown()
	require.NoError(t, <-ended)
	require.False(t, rows.Next())
	require.Equal(t, fault.Unavailable, fault.KindOf(rows.Err()), "%v", rows.Err())
	require.NotErrorIs(t, rows.Err(), context.Canceled)
}

// The server, the commands and the Python package have the same default port.
func TestOneDefaultPort(t *testing.T) {
	settings := config.Settings()
	at := slices.IndexFunc(settings, func(s config.Setting) bool { return s.Name == "listen" })
	require.Equal(t, "127.0.0.1:"+client.DefaultPort, settings[at].Default)
	python, err := os.ReadFile("../../python/src/penstock/arguments.py")
	require.NoError(t, err)
	require.Contains(t, string(python), "\n_PORT = "+client.DefaultPort+"\n")
}

// killing is an output that kills a server at the first write.
type killing struct {
	bytes.Buffer
	server *child
}

func (k *killing) Write(text []byte) (int, error) {
	if k.Len() == 0 {
		if err := k.server.command.Process.Kill(); err != nil {
			return 0, err
		}
		_ = k.server.command.Wait()
	}
	return k.Buffer.Write(text)
}

// If the server is lost during a stream, the error states the number of rows so far and a remedy.
func TestServerLostInMidStream(t *testing.T) {
	server := start(t, "--config", readLake(t).config)
	out := &killing{server: server}
	got := runWith(t, process{terminal: terminal{stdout: out}}, "cat", "large", "--uri", server.uri(), "--format", "csv", "--query", `{"dataset": "large", "batch_rows": 100}`)
	require.Equal(t, exitFailure, got.code)
	require.Regexp(t, `^penstock: the server or the connection to it was lost after \d+ rows: [^\n]+\n  → check the server's log and restart it, then read again: the rows so far are incomplete\n$`, got.stderr)
	require.NotContains(t, got.stderr, "desc =")
	require.Less(t, strings.Count(out.String(), "\n"), largeRows)
	got = run(t, "datasets", "--uri", server.uri())
	require.Regexp(t, `^penstock: connect to grpc://[^\n]+: no server answers: [^\n]+\n  → start one there with penstock serve --config FILE`, got.stderr)
}

// The error says if the address is that of an HTTP server, such as the metrics address.
func TestAddressOfAnHTTPServer(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	got := run(t, "datasets", "--uri", web.Listener.Addr().String())
	require.Equal(t, exitFailure, got.code)
	require.Regexp(t, `^penstock: connect to [^\n]+: this address is not a Flight server, but perhaps an HTTP server: [^\n]+\n  → use the address that penstock serve prints`, got.stderr)
}

func TestAddressOfAnotherFlightServer(t *testing.T) {
	server := arrowflight.NewServerWithMiddleware(nil)
	require.NoError(t, server.Init("127.0.0.1:0"))
	server.RegisterFlightService(&arrowflight.BaseFlightServer{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }()
	uri := fmt.Sprintf("grpc://%s", server.Addr())
	for _, command := range [][]string{{"datasets"}, {"cat", "any"}, {"explain", "any"}, {"verify", "any"}} {
		got := run(t, append(command, "--uri", uri)...)
		require.NotZero(t, got.code)
		require.Contains(t, got.stderr, "penstock: connect to "+uri+": this address is not a Penstock server: ")
		require.Contains(t, got.stderr, "\n  → use the address that penstock serve prints")
	}
	server.Shutdown()
	require.NoError(t, <-ended)
}
