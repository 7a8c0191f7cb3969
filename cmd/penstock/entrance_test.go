package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock/penstock/internal/certtest"
)

// certificates makes certificates in a folder, and returns the flags of a server that uses them.
func certificates(t *testing.T, folder string) []string {
	t.Helper()
	require.NoError(t, certtest.Make(folder, []string{"localhost", "127.0.0.1"}, time.Now(), time.Hour))
	return []string{"--tls-cert", filepath.Join(folder, certtest.ServerCert), "--tls-key", filepath.Join(folder, certtest.ServerKey)}
}

// overTLS returns the TLS configuration of a client that trusts the CA in a folder.
func overTLS(t *testing.T, folder string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, certtest.CA))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
}

// serial returns the serial number of the certificate that a server presents.
func serial(t *testing.T, c *child, config *tls.Config) string {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", c.address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	of, ok := conn.(*tls.Conn)
	require.True(t, ok)
	return of.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// spec: access-1
func TestReplacedCertificateDropsNoStream(t *testing.T) {
	folder := t.TempDir()
	server := start(t, append(certificates(t, folder), "--config", readLake(t).config)...)
	config := overTLS(t, folder)
	client, err := arrowflight.NewClientWithMiddleware(server.address, nil, nil, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	described, err := client.GetFlightInfo(t.Context(), &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"large"}})
	require.NoError(t, err)
	rows, err := client.DoGet(t.Context(), described.GetEndpoint()[0].GetTicket())
	require.NoError(t, err)
	_, err = rows.Recv()
	require.NoError(t, err)

	// Meanwhile, other clients connect and read.
	var load sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		load.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					got := run(t, "cat", "home", "--uri", "grpc+tls://"+server.address, "--tls-ca", filepath.Join(folder, certtest.CA))
					assert.Zero(t, got.code, got.stderr)
				}
			}
		})
	}

	first := serial(t, server, config)
	require.NoError(t, os.WriteFile(filepath.Join(folder, certtest.ServerKey), []byte("broken"), 0o600))
	server.stderr.find(t, "changed files cannot be used: the previous content stays in use")
	require.Equal(t, first, serial(t, server, config))
	certificates(t, folder)
	server.stderr.find(t, "changed files are in use")
	require.NotEqual(t, first, serial(t, server, config))
	close(over)
	load.Wait()
	require.ErrorIs(t, drained(rows), io.EOF)
	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
}

// spec: access-2
func TestCommandsReadOverMutualTLS(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	flags := append(certificates(t, folder), "--tls-client-ca", at(certtest.CA), "--config", readLake(t).config)
	server := start(t, flags...)
	uri := "grpc+tls://" + server.address
	got := run(t, "cat", "home", "--uri", uri, "--tls-ca", at(certtest.CA), "--tls-cert", at(certtest.ClientCert), "--tls-key", at(certtest.ClientKey))
	require.Zero(t, got.code, got.stderr)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no certificate": {[]string{"--uri", uri, "--tls-ca", at(certtest.CA)}, "the server requires a certificate"},
		"no CA":          {[]string{"--uri", uri}, "the server's certificate is not trusted"},
		"no TLS":         {[]string{"--uri", server.uri()}, "the server speaks TLS\n  → write grpc+tls://" + server.address},
		"not its name":   {[]string{"--uri", strings.Replace(uri, "127.0.0.1", "127.0.0.2", 1), "--tls-ca", at(certtest.CA)}, "127.0.0.2"},
		"CA without TLS": {[]string{"--uri", server.uri(), "--tls-ca", at(certtest.CA)}, "write grpc+tls://host:port"},
		"CA in process":  {[]string{"--config", readLake(t).config, "--tls-ca", at(certtest.CA)}, "are for a server at --uri"},
		"no such CA":     {[]string{"--uri", uri, "--tls-ca", at("none")}, "read the CA of --tls-ca"},
		"an empty CA":    {[]string{"--uri", uri, "--tls-ca", os.DevNull}, "has no certificate"},
		"half a pair":    {[]string{"--uri", uri, "--tls-cert", at(certtest.ClientCert)}, "read the certificate of --tls-cert and --tls-key"},
	} {
		got := run(t, append([]string{"datasets"}, c.args...)...)
		require.NotZero(t, got.code, name)
		require.Contains(t, got.stderr, c.says, name)
	}
	past := t.TempDir()
	for _, name := range []string{certtest.CA, certtest.CAKey} {
		require.NoError(t, os.WriteFile(filepath.Join(past, name), must(os.ReadFile(at(name))), 0o600))
	}
	require.NoError(t, certtest.Make(past, []string{"localhost"}, time.Now().Add(-48*time.Hour), time.Hour))
	got = run(t, "datasets", "--uri", uri, "--tls-ca", at(certtest.CA), "--tls-cert", filepath.Join(past, certtest.ClientCert), "--tls-key", filepath.Join(past, certtest.ClientKey))
	require.Contains(t, got.stderr, "the certificate of this client has expired")
	require.Contains(t, got.stderr, "→ renew the certificate of --tls-cert")
	plain := start(t, "--config", readLake(t).config)
	got = run(t, "datasets", "--uri", "grpc+tls://"+plain.address)
	require.Contains(t, got.stderr, "the server does not speak TLS\n  → write grpc://"+plain.address)
}

// spec: access-3
func TestInsecureLogsWhatItOpens(t *testing.T) {
	l := newLake(t, t.TempDir())
	keys := l.file(t, "tickets.keys", "k1 "+strings.Repeat("QUJD", 16)+"\n")
	folder := t.TempDir()
	tlsFlags := certificates(t, folder)
	open := []string{"serve", "--config", l.config, "--listen", "0.0.0.0:0"} // without ticket keys, so that the command always ends
	got := run(t, append(open, tlsFlags...)...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "has no credentials")
	require.NotContains(t, got.stderr, "no TLS")

	server := start(t, append(tlsFlags, "--config", l.config, "--ticket-keys", keys, "--listen", "0.0.0.0:0", "--insecure")...)
	logged := server.stderr.find(t, "an address that other machines reach is insecure")
	require.Equal(t, "credentials", logged["missing"].([]any)[0])
	require.Equal(t, "every program that reaches the address may read all datasets, or those that the policy allows to all clients", logged["opens"].([]any)[0])

	// Mutual TLS needs no --insecure, and protects the metrics too.
	mutual := start(t, append(tlsFlags, "--config", l.config, "--ticket-keys", keys, "--listen", "0.0.0.0:0", "--metrics", "0.0.0.0:0",
		"--tls-client-ca", filepath.Join(folder, certtest.CA))...)
	require.NotContains(t, mutual.stderr.String(), "is insecure")
	port := mutual.metricsPort(t)
	require.Error(t, scrapeTLS(t, "https://127.0.0.1:"+port, overTLS(t, folder)))
	config := overTLS(t, folder)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certtest.ClientCert), filepath.Join(folder, certtest.ClientKey))
	require.NoError(t, err)
	config.Certificates = []tls.Certificate{pair}
	require.NoError(t, scrapeTLS(t, "https://127.0.0.1:"+port, config))
}

// metricsPort returns the port of a server's metrics.
func (c *child) metricsPort(t *testing.T) string {
	t.Helper()
	address, ok := c.stderr.find(t, "metrics")["listen"].(string)
	require.True(t, ok)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return port
}

// scrapeTLS reads metrics over TLS.
func scrapeTLS(t *testing.T, url string, config *tls.Config) error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url+"/metrics", http.NoBody)
	require.NoError(t, err)
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "penstock_build_info")
	return nil
}

// An error of a call through a proxy names the variable with the proxy: its text has the address of the proxy, not that of the server.
func TestErrorsNameTheProxy(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self, "datasets", "--uri", "grpc://loaders.example.com:8815")
	command.Env = append(os.Environ(), asMain+"=1", "HTTPS_PROXY=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "NO_PROXY=", "no_proxy=")
	text, err := command.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "the variable HTTPS_PROXY makes gRPC connect through a proxy")
}
