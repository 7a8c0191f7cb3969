package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// reloaded is a server whose config file is changed by a test.
type reloaded struct {
	*child
	file string
	text string // content at the start of the server
}

func startReloaded(t *testing.T, flags ...string) *reloaded {
	t.Helper()
	l := readLake(t)
	text, err := os.ReadFile(l.config)
	require.NoError(t, err)
	r := &reloaded{file: filepath.Join(t.TempDir(), "penstock.yaml"), text: strings.ReplaceAll(string(text), "sqlite:///", "sqlite:///"+l.dir+"/")}
	r.put(t, r.text)
	r.child = start(t, append([]string{"--config", r.file}, flags...)...)
	r.stderr.find(t, "penstock serves")
	return r
}

func (r *reloaded) put(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(r.file, []byte(text), 0o600))
}

// Log messages after a reload.
const (
	inUse   = "changed files are in use"
	refused = "changed files cannot be used: the previous content stays in use"
)

// reload writes the config file, makes the server load it at once, and waits for a message in the
// log. It returns the lines added to the log.
func (r *reloaded) reload(t *testing.T, text, message string) string {
	t.Helper()
	before := r.stderr.String()
	r.put(t, text)
	require.NoError(t, r.command.Process.Signal(syscall.SIGHUP))
	return r.stderr.wait(t, before, message)
}

// rows returns the output of cat for the server.
func (r *reloaded) rows(t *testing.T, args ...string) string {
	t.Helper()
	got := run(t, append([]string{"cat", "--uri", r.uri(), "--format", "jsonl"}, args...)...)
	require.Zero(t, got.code, got.stderr)
	return got.stdout
}

// reloads returns the server's count of reloads with a result. In a slow test, the watcher also
// reloads, and the count is higher.
func reloads(t *testing.T, metrics, result string) int {
	t.Helper()
	_, rest, found := strings.Cut(scrape(t, metrics), fmt.Sprintf("penstock_config_reloads_total{result=%q} ", result))
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestDatasetsAreReloaded checks that added, changed and removed datasets take effect after SIGHUP.
// Tickets of changed datasets expire, and those of other datasets remain valid.
//
// spec: ticket-16, ticket-17
func TestDatasetsAreReloaded(t *testing.T) {
	r := startReloaded(t, "--metrics", "127.0.0.1:0")
	metrics := r.stderr.find(t, "metrics")["listen"].(string)
	client, err := arrowflight.NewClientWithMiddleware(r.address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	ticket := func(dataset string) *arrowflight.Ticket {
		described, err := client.GetFlightInfo(t.Context(), &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{dataset}})
		require.NoError(t, err)
		return described.GetEndpoint()[0].GetTicket()
	}
	redeem := func(ticket *arrowflight.Ticket) error {
		stream, err := client.DoGet(t.Context(), ticket)
		require.NoError(t, err)
		return drained(stream)
	}
	home, large := ticket("home"), ticket("large")
	open := idle(t, r.child)

	text := strings.Replace(r.text, "key: {request_id: req_id}}", "key: {request_id: req_id}, prefix: h_}", 1)
	text = text[:strings.Index(text, "  gone:")] + "  more:\n    training: {table: ml.impressions}\n"
	said := r.reload(t, text, inUse)
	require.Contains(t, said, `"added":["more"],"changed":["home"],"removed":["gone"]`)

	require.Contains(t, r.rows(t, "home"), `"h_country"`)
	require.Contains(t, r.rows(t, "more"), `"item"`)
	require.Contains(t, run(t, "cat", "gone", "--uri", r.uri()).stderr, `there is no dataset "gone"`)
	require.Equal(t, codes.FailedPrecondition, status.Code(redeem(home)))
	require.ErrorIs(t, redeem(large), io.EOF)
	require.ErrorIs(t, drained(open), io.EOF, "the stream that was open")
	require.Contains(t, scrape(t, metrics), "penstock_config_current 1\n")
	require.GreaterOrEqual(t, reloads(t, metrics, "applied"), 1)
}

// TestChangedConfigFileIsReloadedWithoutASignal checks that the file is watched.
func TestChangedConfigFileIsReloadedWithoutASignal(t *testing.T) {
	r := startReloaded(t)
	r.put(t, r.text+"  more:\n    training: {table: ml.impressions}\n")
	require.Equal(t, []any{"more"}, r.stderr.find(t, "datasets changed")["added"])
	require.NotEmpty(t, r.rows(t, "more"))
}

// brokenConfigs returns config files that a server must refuse, each with a part of the error, by
// the kind of fault.
func brokenConfigs(text string) map[string][2]string {
	dataset := func(more string) string { return text + "  other: " + more + "\n" }
	home := func(from, to string) string { return strings.Replace(text, from, to, 1) }
	return map[string][2]string{
		"empty":                        {"", "is empty"},
		"no YAML":                      {text + "}{", "is not YAML"},
		"a tab":                        {text + "\tother: 1\n", "is not YAML"},
		"half a file":                  {text[:strings.Index(text, "features.history")] + "[", "is not YAML"},
		"bytes":                        {"\x00\x01\x02", "is not YAML"},
		"a list":                       {"- catalogs\n", "want a mapping"},
		"two documents":                {text + "---\n" + text, "a second YAML document"},
		"an unknown field":             {text + "dataset: {}\n", "unknown field"},
		"an unknown setting":           {text + "server: {memroy: 1GiB}\n", "unknown field"},
		"a wrong setting":              {text + "server: {memory: much}\n", "is not a size"},
		"contradicting settings":       {text + "server: {tls_key: key.pem}\n", "tls_cert is not set"},
		"no catalog":                   {"datasets: {}\n", "there is no catalog"},
		"another catalog":              {home("catalog.db", "other.db"), "catalogs differ from those in use: default"},
		"one catalog more":             {home("catalogs:\n", "catalogs:\n  lab: {type: sql, uri: \"sqlite:////none.db\"}\n"), "catalogs differ from those in use: lab"},
		"a missing variable":           {home("catalog.db", "${NO_SUCH_VARIABLE}.db"), "has no variable NO_SUCH_VARIABLE"},
		"a dataset without a table":    {dataset("{key: [a]}"), "training"},
		"a staging table without key":  {dataset("{training: {table: ml.large}, staging: [{table: features.history}]}"), "missing; name the columns"},
		"a wrong rule":                 {home("req_id}}", "req_id}, join: sideways}"), "sideways"},
		"a wrong filter":               {home("req_id}}", "req_id}, filter: \"country = \"}"), "filter"},
		"a column that does not exist": {home("req_id}}", "nosuch}}"), `has no column \"nosuch\"`},
		"a table that does not exist":  {home("features.history", "features.histroy"), "features.histroy"},
		"keys of unlike types":         {home("req_id}}", "country}}"), "keys of these types cannot be equal"},
		"two names that are equal":     {home("req_id}}", "req_id}, columns: [{column: country, name: item}]}"), "item"},
	}
}

// TestBrokenConfigFilesDoNoHarm checks that the error of an invalid config file is logged, that the
// server still returns the same rows, and that open streams continue.
//
// spec: ticket-18
func TestBrokenConfigFilesDoNoHarm(t *testing.T) {
	r := startReloaded(t, "--metrics", "127.0.0.1:0")
	metrics := r.stderr.find(t, "metrics")["listen"].(string)
	open := idle(t, r.child)
	want := r.rows(t, "home")
	broken := brokenConfigs(r.text)
	require.GreaterOrEqual(t, len(broken), 20)
	for name, c := range broken {
		said := r.reload(t, c[0], refused)
		require.Contains(t, said, c[1], name)
		require.Equal(t, want, r.rows(t, "home"), name)
		require.Contains(t, scrape(t, metrics), "penstock_config_current 0\n", name)
	}
	require.NoError(t, os.Remove(r.file))
	require.NoError(t, r.command.Process.Signal(syscall.SIGHUP))
	r.stderr.wait(t, "", "there is no config file")
	r.reload(t, r.text, inUse)
	require.Contains(t, scrape(t, metrics), "penstock_config_current 1\n")
	require.Greater(t, reloads(t, metrics, "refused"), len(broken))
	require.ErrorIs(t, drained(open), io.EOF)
}

// TestSettingsNeedARestart checks that after a config file changes datasets and settings, the
// datasets are served, and the log names the settings that need a restart.
func TestSettingsNeedARestart(t *testing.T) {
	r := startReloaded(t, "--metrics", "127.0.0.1:0", "--memory", "1GiB")
	metrics := r.stderr.find(t, "metrics")["listen"].(string)
	const more = "  more:\n    training: {table: ml.impressions}\n"
	r.reload(t, r.text+more+"server: {memory: 2GiB, drain: 10s, max_streams: 7, stall_timeout: 3h}\n", inUse)
	// memory is not listed because a flag sets it, and drain because 10s is its default.
	require.Equal(t, []any{"max_streams", "stall_timeout"}, r.stderr.find(t, "settings in the config file are used after a restart")["settings"])
	require.NotEmpty(t, r.rows(t, "more"))
	require.Contains(t, scrape(t, metrics), "penstock_config_current 0\n")
	r.reload(t, r.text+more, inUse)
	require.Contains(t, scrape(t, metrics), "penstock_config_current 1\n")
}

// TestNewDatasetMayHaveNoTableYet checks that a new dataset is accepted before its table exists, as
// at the start of the server, and that a dataset that cannot be read can still be changed.
func TestNewDatasetMayHaveNoTableYet(t *testing.T) {
	r := startReloaded(t)
	said := r.reload(t, r.text+"  later:\n    training: {table: ml.later}\n", inUse)
	require.Contains(t, said, "dataset cannot be read")
	require.Contains(t, run(t, "cat", "later", "--uri", r.uri()).stderr, "ml.later")
	r.reload(t, r.text+"  later:\n    training: {table: ml.latest}\n", inUse)
	require.Contains(t, run(t, "cat", "later", "--uri", r.uri()).stderr, "ml.latest")
}
