package spool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// Without a limit, a part of the disk stays free.
//
// spec: join-110
func TestSpoolsWithoutALimitLeaveRoomOnTheDisk(t *testing.T) {
	t.Parallel()
	const gigabyte = 1 << 30
	for name, c := range map[string]struct {
		limit, size, keep int64
	}{
		"a tenth of a small disk":    {size: 20 * gigabyte, keep: 2 * gigabyte},
		"ten gigabytes of a large":   {size: 8000 * gigabyte, keep: 10 * gigabyte},
		"nothing beside a limit":     {limit: gigabyte, size: 20 * gigabyte},
		"nothing if it is not known": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(Options{Folder: t.TempDir(), Limit: c.limit})
			require.NoError(t, err)
			free := int64(0)
			s.space = func(string) (int64, int64) { return free, c.size }
			rows := random(1, 100)
			defer rows.Release()
			f, err := s.Create("rows")
			require.NoError(t, err)
			defer f.Release()
			if c.keep > 0 {
				free = c.keep
				_, err = f.Append(rows)
				require.Equal(t, fault.Exhausted, fault.KindOf(err))
				require.ErrorContains(t, err, "stay free")
				require.Contains(t, fault.As(err).Remedy, "spool_limit")
				require.Zero(t, s.Stats().Used)
				free += 1 << 20
			}
			_, err = f.Append(rows)
			require.NoError(t, err)
		})
	}
}

// The space of a real disk is known.
func TestDiskSpace(t *testing.T) {
	t.Parallel()
	free, size := diskSpace(t.TempDir())
	if size == 0 {
		require.Zero(t, free)
		return
	}
	require.Positive(t, size)
	require.GreaterOrEqual(t, size, free)
}
