package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/certtest"
	"github.com/penstock/penstock/internal/telemetry"
)

// The command health works with and without TLS and needs no token. It fails if no server answers.
func TestHealthOfServers(t *testing.T) {
	l := readLake(t)
	plain := start(t, "--config", l.config)
	healthSoon(t, plain.uri())
	require.Equal(t, ran{exitOK, "serving\n", ""}, run(t, "health", "--uri", plain.uri()))
	got := run(t, "health", "--uri", "grpc+tls://"+plain.address)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "does not answer")
	plain.signal(t)
	code, _ := plain.wait(t)
	require.Zero(t, code)
	require.Equal(t, exitFailure, run(t, "health", "--uri", plain.uri()).code)
	require.Equal(t, exitUsage, run(t, "health").code)

	folder := filepath.Join(t.TempDir(), "certificates")
	flags := certificates(t, folder)
	tokens := filepath.Join(t.TempDir(), "server.tokens")
	require.Zero(t, run(t, "token", "new", "--subject", "a", "--tokens", tokens).code)
	protected := start(t, append(flags, "--config", l.config, "--tokens", tokens)...)
	healthSoon(t, strings.Replace(protected.uri(), "grpc:", "grpc+tls:", 1))
}

// healthSoon waits until a server that has just started is ready.
func healthSoon(t *testing.T, uri string) {
	t.Helper()
	require.Eventually(t, func() bool { return run(t, "health", "--uri", uri).code == exitOK }, time.Minute, time.Millisecond)
}

// A server whose storage does not answer is ready soon, and stays ready: readiness never follows storage.
//
// spec: status-14
func TestReadinessDoesNotFollowStorage(t *testing.T) {
	config := filepath.Join(t.TempDir(), "penstock.yaml")
	require.NoError(t, os.WriteFile(config, []byte(`
catalogs:
  dead:
    type: directory
    warehouse: s3://bucket/tables
    s3.endpoint: http://127.0.0.1:9
    s3.access-key-id: a
    s3.secret-access-key: b
    s3.region: us-east-1
datasets:
  dead: {training: {table: dead.ml.rows}}
`), 0o600))
	server := start(t, "--config", config, "--storage-timeout", "1s")
	healthSoon(t, server.uri())
	require.Equal(t, exitFailure, run(t, "count", "dead", "--uri", server.uri()).code)
	require.Equal(t, exitOK, run(t, "health", "--uri", server.uri()).code)
	require.Contains(t, server.stderr.find(t, "dataset cannot be read"), "error")
}

// Probes of a server that requires certificates have none, and yet see when the server is ready.
//
// spec: status-19
func TestProbesOfServersWithCertificates(t *testing.T) {
	folder := t.TempDir()
	flags := append(certificates(t, folder), "--tls-client-ca", filepath.Join(folder, certtest.CA), "--config", readLake(t).config, "--health", "127.0.0.1:0")
	server := start(t, flags...)
	address, isText := server.stderr.find(t, "health")["listen"].(string)
	require.True(t, isText)
	require.Eventually(t, func() bool { return probed(t, address) == http.StatusOK }, time.Minute, time.Millisecond)
	require.Equal(t, exitFailure, run(t, "health", "--uri", "grpc+tls://"+server.address).code, "it has no certificate")
}

// probed returns the status with which the address of probes answers.
func probed(t *testing.T, address string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+telemetry.HealthPath, http.NoBody)
	require.NoError(t, err)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}
