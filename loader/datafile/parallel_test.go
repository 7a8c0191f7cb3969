package datafile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
)

// A call of a server that allows eight writes two partitions at the same time, as one that has the whole budget does: its row
// groups are smaller, too.
//
// spec: stage-55
func TestWritersNeedAShareOfTheBudget(t *testing.T) {
	for _, c := range []struct {
		limit          int64
		calls, threads int
		want           int
	}{
		{-1, 1, 16, 16},
		{2 << 30, 1, 16, 2},
		{2 << 30, 8, 16, 2},
		{2 << 30, 8, 1, 1},
		{64 << 30, 8, 16, 8},
		{64 << 30, 1, 16, 16},
		{512 << 20, 1, 16, 2},
		{1 << 30, 8, 16, 1},
		{255 << 20, 1, 16, 1},
	} {
		o := Options{Calls: c.calls, Threads: c.threads}
		if c.limit >= 0 {
			o.Budget = budget.New(c.limit)
		}
		require.Equal(t, c.want, NewCall(o.Defaults(), nil).writers(), "%+v", c)
	}
}
