package fault_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestCount(t *testing.T) {
	require.Equal(t, "0 rows", fault.Count(0, "row"))
	require.Equal(t, "1 stream", fault.Count(1, "stream"))
	require.Equal(t, "2 streams", fault.Count(int64(2), "stream"))
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 102_300: "99.9 KiB", 102_400: "100 KiB", 1<<20 - 1: "1.0 MiB",
		12_638_255_104: "11.8 GiB", 3 << 50: "3.0 PiB",
	} {
		require.Equal(t, want, fault.Size(bytes))
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "17B": 17, "4GiB": 4 << 30, "4 GiB": 4 << 30, "1.5KiB": 1536, "2kb": 2000, "3MB": 3e6, "1tib": 1 << 40,
	} {
		n, err := fault.ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "GiB", "-1", "4XB", "1e30TiB", "9999999TiB", "NaN", "Inf", "1 2", "0x10"} {
		_, err := fault.ParseSize(text)
		require.ErrorContains(t, err, "is not a size", text)
	}
}
