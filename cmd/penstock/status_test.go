package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/flight"
)

// closing is an output whose reader closes it after the given number of writes.
type closing struct {
	bytes.Buffer
	writes int
}

// Write implements io.Writer.
func (c *closing) Write(p []byte) (int, error) {
	if c.writes == 0 {
		return 0, io.ErrClosedPipe
	}
	c.writes--
	return c.Buffer.Write(p)
}

// statusOf returns the status of a server, decoded from JSON.
func statusOf(t *testing.T, uri string) (out flight.ServerStatus) {
	t.Helper()
	got := run(t, "status", "--json", "--uri", uri)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	return out
}

// TestStatusOfServers checks all output forms of the status while a client does not read its
// stream, and checks the status again after the client has read the stream.
//
// spec: status-1, status-11
func TestStatusOfServers(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	c, err := client.Dial(server.uri(), client.Security{}, version())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	rows, err := c.Open(t.Context(), []byte(`{"dataset": "large", "batch_rows": 100, "job": "sweep-7"}`))
	require.NoError(t, err)
	defer rows.Release()
	require.True(t, rows.Next())
	require.Eventually(t, func() bool {
		all := statusOf(t, server.uri()).Streams
		return len(all) == 1 && all[0].Job == "sweep-7" && all[0].Waiting == "trainer" && all[0].Waited.Trainer > 0
	}, time.Minute, 10*time.Millisecond)
	all := statusOf(t, server.uri())
	require.True(t, all.Config.Current)
	require.Positive(t, all.Memory.Limit)
	require.EqualValues(t, largeRows, all.Streams[0].RowsTotal)
	require.Less(t, all.Streams[0].Rows, int64(largeRows))

	text := run(t, "status", "--uri", server.uri())
	require.Equal(t, exitOK, text.code, text.stderr)
	require.Contains(t, text.stdout, "sweep-7  large    0/1")
	require.Contains(t, text.stdout, "waits for trainer")
	require.LessOrEqual(t, strings.Count(text.stdout, "\n"), 40)

	out := &closing{writes: 2}
	require.Equal(t, exitOK, runWith(t, process{terminal: terminal{stdout: out}}, "status", "--uri", server.uri(), "--watch", "0.1").code, "its reader has gone")
	require.Equal(t, 2, strings.Count(out.String(), "1 stream\n"))
	require.NotContains(t, out.String(), clearScreen)
	out = &closing{writes: 2}
	runWith(t, process{terminal: terminal{stdout: out, width: 80}}, "status", "--uri", server.uri(), "--watch", "0.1")
	require.Equal(t, 2, strings.Count(out.String(), clearScreen))
	out = &closing{writes: 3}
	runWith(t, process{terminal: terminal{stdout: out}}, "status", "--uri", server.uri(), "--watch", "0.1", "--json")
	require.Equal(t, 3, strings.Count(out.String(), "\n"), "an answer in each line")

	n := int64(0)
	for more := true; more; more = rows.Next() {
		n += rows.RecordBatch().NumRows()
	}
	require.NoError(t, rows.Err())
	require.EqualValues(t, largeRows, n)
	require.Eventually(t, func() bool { return len(statusOf(t, server.uri()).Streams) == 0 }, time.Minute, 10*time.Millisecond)
	require.Contains(t, server.stderr.find(t, "stream ends"), "job")

	for _, args := range [][]string{
		{"status"}, {"status", "--config", l.config}, {"status", "--uri", server.uri(), "--watch", "-1"}, {"status", "--uri", server.uri(), "more"},
	} {
		require.Equal(t, exitUsage, run(t, args...).code, args)
	}
	help := run(t, "status", "--help")
	require.NotContains(t, help.stdout, "--config")
	require.Contains(t, run(t, "status").stderr, "status needs a server: give --uri grpc://host:port, or set PENSTOCK_URI")
}

// TestStatusShowsRefusedConfigFiles breaks the config file of a server, and then repairs it.
//
// spec: status-6
func TestStatusShowsRefusedConfigFiles(t *testing.T) {
	l := newLake(t, t.TempDir())
	server := start(t, "--config", l.config)
	before, err := os.ReadFile(l.config)
	require.NoError(t, err)
	require.Equal(t, &flight.ConfigStatus{Current: true}, statusOf(t, server.uri()).Config)
	write := func(text string) {
		require.NoError(t, os.WriteFile(l.config, []byte(text), 0o600))
		server.reload(t)
	}
	write(string(before) + "wrong: true\n")
	require.Eventually(t, func() bool { return statusOf(t, server.uri()).Config.Refused > 0 }, time.Minute, 10*time.Millisecond)
	refused := statusOf(t, server.uri()).Config
	require.False(t, refused.Current)
	require.Contains(t, refused.Error, "wrong")
	require.False(t, refused.Last.IsZero())
	require.Contains(t, run(t, "status", "--uri", server.uri()).stdout, "not in use as it is on disk")
	write(string(before) + "\n")
	require.Eventually(t, func() bool { return statusOf(t, server.uri()).Config.Applied > 0 }, time.Minute, 10*time.Millisecond)
	mended := statusOf(t, server.uri()).Config
	require.True(t, mended.Current)
	require.Empty(t, mended.Error)
}
