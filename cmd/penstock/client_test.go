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

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
)

// liar is a server that gives two rows and then says something else.
type liar struct {
	arrowflight.BaseFlightServer
	schema *arrow.Schema
	last   string // app_metadata of the last message; "": there is none
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

func TestDialed(t *testing.T) {
	for uri, want := range map[string]string{
		"host:1": "host:1", "grpc://host:1": "host:1", "grpc+tcp://[::1]:1": "[::1]:1", "grpc+unix:///run/p": "unix:///run/p",
		"127.0.0.1": "127.0.0.1:8815", "grpc://host": "host:8815", "[::1]": "[::1]:8815",
	} {
		got, err := dialed(uri)
		require.NoError(t, err)
		require.Equal(t, want, got, uri)
	}
	for _, uri := range []string{"", "grpc://", "::1", "http://host", "u@host", "host:1:2", "grpc+unix://run"} {
		_, err := dialed(uri)
		require.Equal(t, fault.Invalid, fault.KindOf(err), uri)
	}
}

// A stream that ends well but without the report, or with other rows than it
// reports, never counts as whole.
func TestStreamWithoutItsReport(t *testing.T) {
	for name, c := range map[string]struct {
		last string
		code int
		says string
	}{
		"none":      {"", exitFailure, "ended without its report: rows may be missing"},
		"no report": {`{"v": 1}`, exitFailure, "ended without its report: rows may be missing"},
		"more rows": {`{"report": {"rows": 3}}`, exitFailure, "it sent 3 rows, 2 arrived"},
		"all rows":  {`{"report": {"rows": 2, "staging": {"s": {"rows": 2, "matched": 1}}}}`, exitOK, "2 rows; s matched 1 of 2\n"},
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

// A server that goes away between the plan and the rows is unavailable; nobody
// interrupted anything.
func TestServerGoesBeforeTheRows(t *testing.T) {
	server := arrowflight.NewServerWithMiddleware(nil)
	require.NoError(t, server.Init("127.0.0.1:0"))
	server.RegisterFlightService(&liar{schema: arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }()
	c, err := dial("grpc://" + server.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	rows, err := c.Open(t.Context(), []byte(`{"dataset": "any"}`))
	require.NoError(t, err)
	server.Shutdown()
	require.NoError(t, <-ended)
	require.False(t, rows.Next())
	require.Equal(t, fault.Unavailable, fault.KindOf(rows.err), "%v", rows.err)
	require.NotErrorIs(t, rows.err, context.Canceled)
}

// TestOneDefaultPort: a server that is told no address, the commands and the Python package
// mean the same port.
func TestOneDefaultPort(t *testing.T) {
	settings := config.Settings()
	at := slices.IndexFunc(settings, func(s config.Setting) bool { return s.Name == "listen" })
	require.Equal(t, "127.0.0.1:"+defaultPort, settings[at].Default)
	python, err := os.ReadFile("../../python/src/penstock/given.py")
	require.NoError(t, err)
	require.Contains(t, string(python), "\n_PORT = "+defaultPort+"\n")
}

// killing ends a server with the first bytes that are written.
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

// TestAServerThatIsGoneInMidStream is told as that: with how far the stream came, and what
// to do; half a file is not taken for a whole one.
func TestAServerThatIsGoneInMidStream(t *testing.T) {
	server := start(t, "--config", readLake(t).config)
	out := &killing{server: server}
	got := runWith(t, process{stdout: out}, "cat", "large", "--uri", server.uri(), "--format", "csv", "--query", `{"dataset": "large", "batch_rows": 100}`)
	require.Equal(t, exitFailure, got.code)
	require.Regexp(t, `^penstock: the server is gone, or the connection to it, behind \d+ rows: [^\n]+\n  → see its log and start it again, then read again: what has come is not whole\n$`, got.stderr)
	require.NotContains(t, got.stderr, "desc =")
	require.Less(t, strings.Count(out.String(), "\n"), largeRows)
	got = run(t, "datasets", "--uri", server.uri())
	require.Regexp(t, `^penstock: ask grpc://[^\n]+: no server answers: [^\n]+\n  → start one there with penstock serve --config FILE`, got.stderr)
}

// TestAnAddressOfSomethingElse, such as that of the metrics, is told as that.
func TestAnAddressOfSomethingElse(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	got := run(t, "datasets", "--uri", web.Listener.Addr().String())
	require.Equal(t, exitFailure, got.code)
	require.Regexp(t, `^penstock: ask [^\n]+: what answers there is no Flight server, perhaps one of HTTP: [^\n]+\n  → take the address that penstock serve prints`, got.stderr)
}

func TestAFlightServerThatIsNotPenstock(t *testing.T) {
	server := arrowflight.NewServerWithMiddleware(nil)
	require.NoError(t, server.Init("127.0.0.1:0"))
	server.RegisterFlightService(&arrowflight.BaseFlightServer{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }()
	uri := fmt.Sprintf("grpc://%s", server.Addr())
	for _, command := range [][]string{{"datasets"}, {"cat", "any"}, {"explain", "any"}, {"verify", "any"}} {
		got := run(t, append(command, "--uri", uri)...)
		require.NotZero(t, got.code)
		require.Contains(t, got.stderr, "penstock: ask "+uri+": what answers there is not a Penstock server: ")
		require.Contains(t, got.stderr, "\n  → take the address that penstock serve prints")
	}
	server.Shutdown()
	require.NoError(t, <-ended)
}
