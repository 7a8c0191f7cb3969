package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "17B": 17, "4GiB": 4 << 30, "4 GiB": 4 << 30, "1.5KiB": 1536, "2kb": 2000, "3MB": 3e6, "1tib": 1 << 40,
	} {
		n, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "GiB", "-1", "4XB", "1e30TiB", "9999999TiB", "NaN", "Inf", "1 2", "0x10"} {
		_, err := ParseBytes(text)
		require.ErrorContains(t, err, "is not a size", text)
	}
}

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
