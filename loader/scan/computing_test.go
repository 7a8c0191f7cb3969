package scan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/scan"
)

// TestFiltersReserveTheValuesThatTheyCompute reads all rows of a file by two filters. One of them computes values.
func TestFiltersReserveTheValuesThatTheyCompute(t *testing.T) {
	t.Parallel()
	const rows = 8192
	r := newRig(t)
	r.grow(rows, rows, 1)
	columns := r.columns("id")
	peak := func(filter string) int64 {
		limit := budget.New(1 << 30)
		source := r.source()
		source.Filter = r.filter(filter)
		got := r.read(r.scanner(scan.Options{Budget: limit, BatchRows: rows}), source, columns)
		require.NoError(t, got.err)
		require.Len(t, got.lines, rows)
		require.Zero(t, limit.Used())
		return limit.Peak()
	}
	require.GreaterOrEqual(t, peak("length(key || key || key || key) >= 0"), peak("key IS NULL OR key IS NOT NULL")+4*rows)
}

// TestTightBudgetsOfFilters reads rows by a filter that computes values with every budget from too small to plentiful. With
// too little memory, it fails with the remedy.
func TestTightBudgetsOfFilters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(300, 60, 1)
	source := r.source()
	source.Filter = r.filter("id + 1 > 0")
	largest, stored := sizes(t, r, all...)
	works := false
	for bytes := largest / 2; bytes < 4*(largest+stored); bytes += largest / 4 {
		limit := budget.New(bytes)
		got := r.read(r.scanner(scan.Options{Budget: limit}), source, r.columns(all...))
		require.Zero(t, limit.Used())
		require.LessOrEqual(t, limit.Peak(), bytes)
		if got.err != nil {
			require.False(t, works, "%d bytes are too little, less was enough", bytes)
			require.Equal(t, fault.Exhausted, fault.KindOf(got.err))
			require.ErrorContains(t, got.err, "raise the server's memory budget")
			continue
		}
		works = true
		require.Len(t, got.lines, 300)
	}
	require.True(t, works)
}
