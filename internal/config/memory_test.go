package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultMemory(t *testing.T) {
	require.EqualValues(t, 2<<30, defaultMemory(0))
	require.EqualValues(t, 64<<30, defaultMemory(1<<40))
	require.EqualValues(t, 4<<30, defaultMemory(8<<30))
	for _, machine := range []int64{minMachine, 512 << 20, 600 << 20, 1 << 30, 2 << 30} {
		budget := defaultMemory(machine)
		require.GreaterOrEqual(t, budget, int64(minDefaultMemory)-4, "of %d MiB", machine>>20)
		require.LessOrEqual(t, budget+budget/4+256<<20, machine)
	}
}
