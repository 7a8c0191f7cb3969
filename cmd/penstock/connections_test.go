package main

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Connections follow the memory budget, and leave half of the files that the process may open to tables and the spool.
func TestConnectionsLeaveFilesToTables(t *testing.T) {
	for _, c := range []struct {
		memory, files int64
		want          int
		warns         bool
	}{
		{1 << 20, 0, 256, false},
		{256 << 20, 0, 1024, false},
		{64 << 30, 1 << 20, 4096, false},
		{64 << 30, 8192, 4096, false},
		{64 << 30, 1024, 512, true},
		{1 << 20, 256, 128, true},
		{1 << 20, 1, 1, true},
	} {
		var log bytes.Buffer
		require.Equal(t, c.want, maxConnections(c.memory, c.files, slog.New(slog.NewTextHandler(&log, nil))), c)
		require.Equal(t, c.warns, log.Len() > 0, c)
	}
}
