package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asMain is the environment variable that makes the test binary run the program, so that tests of
// processes need no second build.
const asMain = "PENSTOCK_TEST_AS_MAIN"

// withClock is the environment variable by which the clock of the program differs from that of the system, as a duration.
const withClock = "PENSTOCK_TEST_CLOCK"

// runWithClock is main with another clock.
func runWithClock(text string) {
	differs, err := time.ParseDuration(text)
	if err != nil {
		os.Exit(exitUsage)
	}
	p := process{
		terminal:    terminal{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr},
		environment: environment{env: os.LookupEnv, environ: os.Environ, clock: func() time.Time { return time.Now().Add(differs) }},
	}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		if text := os.Getenv(withClock); text != "" {
			runWithClock(text)
		}
		main()
		return
	}
	dir, err := os.MkdirTemp("", "penstock")
	if err != nil {
		os.Exit(exitFailure)
	}
	shared.dir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// shared is the lake of all tests that only read it.
var shared struct {
	dir  string
	once sync.Once
	lake lake
}

// readLake returns the shared lake, which tests must not change.
func readLake(t *testing.T) lake {
	t.Helper()
	shared.once.Do(func() { shared.lake = newLake(t, shared.dir) })
	require.NotEmpty(t, shared.lake.config, "another test could not write the tables")
	return shared.lake
}

// lake is a folder with a catalog, tables and a config file.
type lake struct {
	dir    string
	config string
}

// largeRows is the number of rows of ml.large. They do not fit in the buffers between a server and
// a client that does not read.
const largeRows = 12000

// newLake writes the tables that these tests read, with iceberg-go.
func newLake(t *testing.T, dir string) lake {
	t.Helper()
	l := lake{dir: dir}
	c, done := newCatalog(t, dir)
	p := iceberg.PrimitiveTypes
	write(t, c, "ml.impressions", []iceberg.NestedField{
		{ID: 1, Name: "request_id", Type: p.Int64, Required: true},
		{ID: 2, Name: "item", Type: p.String},
		{ID: 3, Name: "label", Type: p.Bool},
		{ID: 4, Name: "score", Type: p.Float32},
		{ID: 5, Name: "ts", Type: p.Timestamp},
		{ID: 6, Name: "price", Type: iceberg.DecimalTypeOf(9, 2)},
	}, `[
		{"request_id": 9007199254740993, "item": "plain",        "label": true,  "score": 0.5,     "ts": "2026-10-01T12:00:00.000001", "price": "1.20"},
		{"request_id": 9007199254740993, "item": "with,comma",   "label": false, "score": 1e-7,    "ts": "2026-10-01T12:00:01",        "price": "-0.05"},
		{"request_id": 2,                "item": "say \"hi\"",   "label": null,  "score": null,    "ts": null,                         "price": null},
		{"request_id": 3,                "item": "two\nlines",   "label": true,  "score": 1e9,     "ts": "2026-10-02T00:00:00",        "price": "12345.00"},
		{"request_id": 4,                "item": "",             "label": true,  "score": 3.25,    "ts": "1969-12-31T23:59:59",        "price": "0.00"},
		{"request_id": 5,                "item": null,           "label": false, "score": -0.125,  "ts": "2026-10-03T00:00:00",        "price": "7.00"},
		{"request_id": 6,                "item": "<b>ünïcode</b>", "label": false, "score": 100,   "ts": "2026-10-03T00:00:00",        "price": "8.00"}
	]`)
	write(t, c, "features.history", []iceberg.NestedField{
		{ID: 1, Name: "req_id", Type: p.Int64, Required: true},
		{ID: 2, Name: "last", Type: &iceberg.ListType{ElementID: 4, Element: p.Int64}},
		{ID: 3, Name: "country", Type: p.String},
	}, `[
		{"req_id": 9007199254740993, "last": [1, 9007199254740993, null], "country": "CH"},
		{"req_id": 3, "last": [], "country": "null"},
		{"req_id": 4, "last": null, "country": null},
		{"req_id": 6, "last": [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160], "country": "DE"}
	]`)
	var large strings.Builder
	for i := range largeRows {
		fmt.Fprintf(&large, "%c{\"request_id\": %d, \"text\": \"%0300d\"}", ",["[min(1, max(0, 1-i))], i, i)
	}
	write(t, c, "ml.large", []iceberg.NestedField{
		{ID: 1, Name: "request_id", Type: p.Int64, Required: true},
		{ID: 2, Name: "text", Type: p.String},
	}, large.String()+"]")
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db"}
datasets:
  home:
    training: {table: ml.impressions}
    key: [request_id]
    staging:
      - {table: features.history, key: {request_id: req_id}}
  large:
    training: {table: ml.large}
    key: [request_id]
  gone:
    training: {table: ml.impresions}
    key: [request_id]
`)
	return l
}

// newCatalog creates a catalog without tables in a folder. done closes it.
func newCatalog(t *testing.T, dir string) (c *icesql.Catalog, done func()) {
	t.Helper()
	c, done = openCatalogOf(t, dir)
	for _, namespace := range []string{"ml", "features"} {
		require.NoError(t, c.CreateNamespace(t.Context(), icetable.Identifier{namespace}, nil))
	}
	return c, done
}

// openCatalogOf opens the catalog of a folder for writing. done closes it.
func openCatalogOf(t *testing.T, dir string) (c *icesql.Catalog, done func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db"))
	require.NoError(t, err)
	c, err = icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	return c, func() { require.NoError(t, db.Close()) }
}

func (l lake) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(l.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// write creates a table, bucketed by its first column, with rows given as JSON.
func write(t *testing.T, c *icesql.Catalog, name string, fields []iceberg.NestedField, rows string) {
	t.Helper()
	buckets := map[string]int{"ml.impressions": 2, "features.history": 3, "ml.large": 2, "ml.named": 2, "features.named": 3, "ml.many": 16}[name]
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{
		SourceIDs: []int{1}, FieldID: 1000, Name: "key_bucket", Transform: iceberg.BucketTransform{NumBuckets: buckets},
	})
	table, err := c.CreateTable(t.Context(), strings.Split(name, "."), iceberg.NewSchema(0, fields...), icecatalog.WithPartitionSpec(&spec))
	require.NoError(t, err)
	commit(t, table, rows)
}

// commit appends rows given as JSON to a table.
func commit(t *testing.T, table *icetable.Table, rows string) {
	t.Helper()
	schema, err := icetable.SchemaToArrowSchema(table.Schema(), nil, false, false)
	require.NoError(t, err)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	require.NoError(t, err)
	reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch})
	require.NoError(t, err)
	_, err = table.Append(t.Context(), reader, nil)
	require.NoError(t, err)
}

// ran is the result of a command line.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs a command line in this process.
func run(t *testing.T, args ...string) ran {
	t.Helper()
	return runWith(t, process{}, args...)
}

func runWith(t *testing.T, p process, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if p.stdout == nil {
		p.stdout = &stdout
	}
	p.stderr, p.clock = &stderr, time.Now
	if p.stdin == nil {
		p.stdin = strings.NewReader("")
	}
	code := p.run(t.Context(), args)
	return ran{code, stdout.String(), stderr.String()}
}

// child is the program in a separate process.
type child struct {
	command *exec.Cmd
	address string
	out     *bufio.Reader
	stderr  *lines
}

// lines collects log lines. Tests can wait for a line.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// forget drops all lines written so far.
func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find waits for a log line with a message, and returns the line.
func (l *lines) find(t *testing.T, message string) map[string]any {
	t.Helper()
	for {
		for line := range strings.Lines(l.String()) {
			var said map[string]any
			if json.Unmarshal([]byte(line), &said) == nil && said["msg"] == message {
				return said
			}
		}
		select {
		case <-l.more:
		case <-time.After(time.Minute):
			require.Fail(t, "the log lacks "+message, l.String())
		}
	}
}

// wait waits until the log contains text after the prefix before, and returns the log after that
// prefix.
func (l *lines) wait(t *testing.T, before, text string) string {
	t.Helper()
	for {
		added := strings.TrimPrefix(l.String(), before)
		if strings.Contains(added, text) {
			return added
		}
		select {
		case <-l.more:
		case <-time.After(time.Minute):
			require.Fail(t, "the log lacks "+text, added)
		}
	}
}

// start starts a server and reads its address.
func start(t *testing.T, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)
	c := &child{command: exec.Command(self, args...)} //nolint:noctx // ended by signals
	c.command.Env = append(os.Environ(), asMain+"=1")
	c.begin(t)
	return c
}

// begin starts the command of a server, and reads its address.
func (c *child) begin(t *testing.T) {
	t.Helper()
	c.stderr = &lines{more: make(chan struct{}, 1)}
	c.command.Stderr = c.stderr
	out, err := c.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.command.Start())
	t.Cleanup(func() {
		if c.command.ProcessState == nil {
			_ = c.command.Process.Kill()
			_ = c.command.Wait()
		}
	})
	c.out = bufio.NewReader(out)
	line, err := c.out.ReadString('\n')
	require.NoError(t, err, c.stderr)
	c.address = strings.TrimSuffix(line, "\n")
}

func (c *child) uri() string { return "grpc://" + c.address }

func (c *child) signal(t *testing.T) {
	t.Helper()
	require.NoError(t, c.command.Process.Signal(syscall.SIGTERM))
}

// reload makes a server load its files at once. The server also compares its files at intervals, and may load them twice.
func (c *child) reload(t *testing.T) {
	t.Helper()
	require.NoError(t, c.command.Process.Signal(syscall.SIGHUP))
}

// drain asks a server to end, and waits until it refuses connections: from then on, its streams end or move.
func (c *child) drain(t *testing.T) {
	t.Helper()
	c.signal(t)
	require.Eventually(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", c.address)
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}, time.Minute, 10*time.Millisecond)
}

// wait waits for the process to exit, and returns the exit code and the rest of standard output
// after the first line.
func (c *child) wait(t *testing.T) (int, string) {
	t.Helper()
	rest, err := io.ReadAll(c.out)
	require.NoError(t, err)
	_ = c.command.Wait()
	return c.command.ProcessState.ExitCode(), string(rest)
}
