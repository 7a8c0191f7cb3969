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
