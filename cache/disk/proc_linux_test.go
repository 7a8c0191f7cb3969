package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// The system answers that a folder below /proc does not exist, although its parent does.
func TestFoldersThatAreNotOnDisk(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Options{Folder: "/proc/penstock", Limit: 1 << 20})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "the cache folder /proc/penstock cannot be created: its parent folder exists, but is not on a disk")
	require.Equal(t, "name a folder on a local disk with the setting cache_dir", fault.As(err).Remedy)
}
