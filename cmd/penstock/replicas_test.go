package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/internal/certtest"
)

// A server is called at one of the addresses of a name, and its certificate is that of the name.
//
// spec: ui-37
func TestAddressesHaveTheCertificateOfTheirName(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, certtest.Make(folder, []string{"penstock.test"}, time.Now(), time.Hour))
	server := start(t, "--tls-cert", filepath.Join(folder, certtest.ServerCert), "--tls-key", filepath.Join(folder, certtest.ServerKey), "--config", readLake(t).config)
	_, port, err := net.SplitHostPort(server.address)
	require.NoError(t, err)
	for host, trusted := range map[string]bool{"penstock.test": true, "other.test": false} {
		c, err := client.DialAddress("grpc+tls://"+host+":"+port, "127.0.0.1", client.Security{CA: filepath.Join(folder, certtest.CA)}, version())
		require.NoError(t, err)
		_, _, err = c.Status(t.Context())
		if trusted {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "certificate is not trusted")
		}
		require.NoError(t, c.Close())
	}
}

// Only names that can have several addresses are looked up.
//
// spec: ui-37
func TestNamesWithSeveralAddresses(t *testing.T) {
	for uri, host := range map[string]string{
		"grpc+tls://penstock-headless:8815": "penstock-headless", "grpc://a.b.svc:1": "a.b.svc", "grpc://localhost:8815": "", "grpc://127.0.0.1:8815": "",
		"grpc://10.0.0.1:8815": "", "grpc://[fd00::1]:8815": "", "grpc+unix:///run/a": "", "grpc://a": "", "": "",
	} {
		require.Equal(t, host, client.HostOf(uri), uri)
	}
	require.Equal(t, []string{"10.0.0.1", "10.0.0.2"}, oneFamily([]string{"fd00::1", "10.0.0.1", "10.0.0.2"}))
	require.Equal(t, []string{"fd00::1", "fd00::2"}, oneFamily([]string{"fd00::1", "fd00::2"}))
}
