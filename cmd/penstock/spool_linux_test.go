package main

import (
	"bytes"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/spool"
)

// A server whose spool cannot be written does not start. Commands that read in process do: they
// may never need it.
func TestSpoolIsCheckedAtStart(t *testing.T) {
	l := readLake(t)
	const place = "/proc" // where not even root makes a file
	got := run(t, "serve", "--config", l.config, "--listen", "127.0.0.1:0", "--spool", place)
	require.Equal(t, exitFailure, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "try the spool: create a file in /proc")
	require.Contains(t, got.stderr, "the setting spool")
	p := process{env: func(name string) (string, bool) { return place, name == "PENSTOCK_SPOOL" }}
	require.Zero(t, runWith(t, p, "cat", "home", "--config", l.config).code)
}

// A server whose spool has no room starts: joins that fit in memory need none.
//
// spec: join-110
func TestSpoolsWithoutRoomAreWarnedAbout(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	disk, err := spool.Open(spool.Options{Folder: t.TempDir(), Limit: 1})
	require.NoError(t, err)
	require.NoError(t, trySpool(disk, log))
	require.Contains(t, logged.String(), "joins that do not fit in memory fail until the spool has room")
	require.Contains(t, logged.String(), "may hold are in use")

	logged.Reset()
	disk, err = spool.Open(spool.Options{Folder: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, os.Remove(disk.Folder()))
	require.Equal(t, fault.Unavailable, fault.KindOf(trySpool(disk, log)))
	require.Empty(t, logged.String())
}
