package engine

import (
	"bytes"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/spool"
)

// A server starts with a warning even if its spool has no room, because joins that fit in memory
// need no spool.
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
