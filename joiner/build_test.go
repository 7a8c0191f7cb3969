package joiner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// spec: join-20
func TestReservationBecomesActualSize(t *testing.T) {
	held, err := budget.New(100).Reserve("history", 60)
	require.NoError(t, err)
	b := builder{held: held}
	require.NoError(t, b.adjust(20, 50))
	require.EqualValues(t, 90, held.Held())
	require.Equal(t, fault.Exhausted, fault.KindOf(b.adjust(50, 61)))
	require.NoError(t, b.adjust(50, 10))
	require.EqualValues(t, 50, held.Held())
}
