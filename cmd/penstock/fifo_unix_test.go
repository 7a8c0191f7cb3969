//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// healthy fails the test unless the server soon reports that it is serving.
func healthy(t *testing.T, c *child) {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, connection.Close()) }()
	require.Eventually(t, func() bool {
		answer, err := grpc_health_v1.NewHealthClient(connection).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	}, time.Minute, time.Millisecond)
}

// The server refuses data files that are FIFOs, because opening one would block forever. The stream
// fails, and the server can still shut down.
func TestDataFilesThatAreFIFOsAreRefused(t *testing.T) {
	l := newLake(t, t.TempDir())
	pipes := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(l.dir, "features.db"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".parquet") {
			require.NoError(t, os.Remove(path))
			require.NoError(t, syscall.Mkfifo(path, 0o600))
			pipes++
		}
		return err
	}))
	require.Positive(t, pipes)
	server := start(t, "--config", l.config)
	got := run(t, "cat", "home", "--uri", server.uri())
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "is not a regular file")
	require.Zero(t, run(t, "cat", "large", "--limit", "1", "--uri", server.uri()).code)
	healthy(t, server)
	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
}
