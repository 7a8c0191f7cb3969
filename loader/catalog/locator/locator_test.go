package locator_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/locator"
)

func TestGrowCallsCharge(t *testing.T) {
	t.Parallel()
	require.NoError(t, locator.Table{}.Grow(1<<40))
	full, charged := errors.New("full"), int64(0)
	table := locator.Table{Charge: func(n int64) error { charged += n; return full }}
	require.ErrorIs(t, table.Grow(7), full)
	require.Equal(t, int64(7), charged)
}
