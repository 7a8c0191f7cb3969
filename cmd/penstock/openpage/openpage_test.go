package openpage_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/openpage"
)

// Pages are found by their sources while they are shown, and not when the program that showed them was killed.
//
// spec: ui-36
func TestOpenPagesAreFound(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "penstock")
	at, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the test
	require.NoError(t, err)
	address := "http://" + at.Addr().String()
	require.Empty(t, openpage.Find(t.Context(), folder, "grpc://a:1"))
	remove, err := openpage.Announce(folder, []string{"grpc://a:1", "/b.yaml"}, address)
	require.NoError(t, err)
	for source, want := range map[string]string{"grpc://a:1": address, "a:1": address, "/b.yaml": address, "grpc://a:2": "", "": ""} {
		require.Equal(t, want, openpage.Find(t.Context(), folder, source), source)
	}
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}

	// Newer pages replace those before, whose end does not remove them.
	newer, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the test
	require.NoError(t, err)
	removeNewer, err := openpage.Announce(folder, []string{"grpc://a:1"}, "http://"+newer.Addr().String())
	require.NoError(t, err)
	remove()
	require.Equal(t, "http://"+newer.Addr().String(), openpage.Find(t.Context(), folder, "a:1"))
	require.Empty(t, openpage.Find(t.Context(), folder, "/b.yaml"))

	require.NoError(t, newer.Close())
	require.Empty(t, openpage.Find(t.Context(), folder, "a:1"), "nothing listens")
	removeNewer()
	files, err = os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, files)
	require.NoError(t, at.Close())
}

// Only addresses of the loopback are shown, whatever a file has.
//
// spec: ui-36
func TestOtherAddressesAreNotShown(t *testing.T) {
	folder := t.TempDir()
	for _, address := range []string{"", "http://example.com:80", "http://10.0.0.1:80", "http://127.0.0.1:1/path", "https://127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:1\x1b[2J"} {
		_, err := openpage.Announce(folder, []string{"a"}, address)
		require.NoError(t, err)
		require.Empty(t, openpage.Find(t.Context(), folder, "a"))
	}
}
