package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// noticing calls a function at the first write.
type noticing struct {
	bytes.Buffer
	once  sync.Once
	first func()
}

// Write implements io.Writer.
func (n *noticing) Write(p []byte) (int, error) {
	n.once.Do(n.first)
	return n.Buffer.Write(p)
}

// A command reads the rest of its stream from the address of a server that was told to stop, once a server listens there again.
//
// spec: wire-62
func TestCommandsReadOnAfterARestart(t *testing.T) {
	l := readLake(t)
	keys := filepath.Join(t.TempDir(), "tickets.keys")
	require.NoError(t, os.WriteFile(keys, []byte("k1 "+strings.Repeat("A", 43)+"=\n"), 0o600))
	flags := []string{"--config", l.config, "--ticket-keys", keys}
	server := start(t, flags...)
	args := []string{"cat", "large", "--format", "csv", "--batch-rows", "100", "--uri", server.uri()}
	want := run(t, args...)
	require.Zero(t, want.code, want.stderr)
	var restarted sync.WaitGroup
	got := &noticing{first: func() {
		server.drain(t)
		restarted.Go(func() {
			code, _ := server.wait(t)
			require.Zero(t, code)
			start(t, append(flags, "--listen", server.address)...)
		})
	}}
	again := runWith(t, process{terminal: terminal{stdout: got}}, args...)
	restarted.Wait()
	require.Zero(t, again.code, again.stderr)
	require.Equal(t, want.stdout, got.String())
	require.Contains(t, server.stderr.String(), `"end":"moved"`)
}
