package resolve_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// Twice as many computed columns take twice as much memory, not four times: a query of a hostile client has thousands.
func TestManyComputedColumns(t *testing.T) {
	allocated := func(columns int) uint64 {
		var pairs []string
		for i := range columns {
			pairs = append(pairs, fmt.Sprint("c", i), fmt.Sprint("item + ", i))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := computedOf(t, pairs...)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(r.Outputs), columns)
		return after.TotalAlloc - before.TotalAlloc
	}
	require.Less(t, allocated(4000), 3*allocated(2000))
}

// The first hundred computed columns with faults are listed.
func TestManyFaultyComputedColumns(t *testing.T) {
	var pairs []string
	for i := range 3000 {
		pairs = append(pairs, fmt.Sprint("c", i), fmt.Sprint("itme + ", i))
	}
	_, err := computedOf(t, pairs...)
	faults := fault.As(err).Faults
	require.Len(t, faults, 101)
	require.Equal(t, "item", faults[99].Nearest)
	require.Equal(t, fault.Field{Field: "computed", Message: "2900 columns more were not checked"}, faults[100])
}
