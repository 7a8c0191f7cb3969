package scan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/scan"
)

// TestCodesAreCached: a scan that may get codes finds them, and reads nothing. One that must get values decodes them once, and the
// cache has both.
//
// spec: cache-2, cache-11
func TestCodesAreCached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addRepeated(600, 200, 1)
	r.grow(100, 50, 1) // keys that do not repeat
	limit := budget.New(1 << 30)
	s, c := r.caching(t, scan.Options{Budget: limit, BatchRows: 25}, 1<<28, nil)
	columns := r.columns("id", "key")
	source := r.repeated()
	source.Checked, source.Coded = nil, []int{2}
	decoded := r.codedColumns(s, source, columns)
	require.Positive(t, decoded)
	stored := r.storedBytes(s, source, "key", "id")
	for again := range 2 {
		r.bytesRead()
		require.Equal(t, decoded, r.codedColumns(s, source, columns))
		got := r.read(s, source, columns)
		require.NoError(t, got.err)
		require.Equal(t, r.want(source, columns, nil), got.lines)
		require.Zero(t, r.bytesRead())

		part := source
		part.Files[0].From, part.Files[0].To = 130, 450
		got = r.read(s, part, columns)
		require.NoError(t, got.err)
		require.Equal(t, r.want(part, columns, nil), got.lines)
		require.Zero(t, r.bytesRead())
		part.Files[0].From, part.Files[0].To = 0, 600

		values := source
		values.Coded = nil
		require.Zero(t, r.codedColumns(s, values, columns))
		if again > 0 {
			require.Zero(t, r.bytesRead())
		} else {
			require.InDelta(t, stored, r.bytesRead(), float64(stored)/10, "the ids are there")
		}
		require.EqualValues(t, 3*5, c.Stats().Filled)
	}
	require.Zero(t, limit.InUse())
	require.Equal(t, c.Stats().Bytes, limit.Used())
}

// TestNoCodesAreCachedWithoutCodes: a scanner that decodes values does not find codes of another one.
//
// spec: cache-11
func TestNoCodesAreCachedWithoutCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addRepeated(300, 100, 1)
	o := scan.Options{Budget: budget.New(1 << 30)}
	s, c := r.caching(t, o, 1<<28, nil)
	o.Chunks, o.MinRepeats = c, scan.NoCodes
	source, columns := r.repeated(), r.columns("key")
	source.Checked, source.Coded = nil, []int{2}
	require.Positive(t, r.codedColumns(s, source, columns))
	require.Zero(t, r.codedColumns(r.scanner(o), source, columns))
	require.EqualValues(t, 6, c.Stats().Filled)
	c.Drop("") // before the second scanner's memory is checked
}

// TestSpareScansFillAtOnce: the first scan fills free room, and with CacheOff none does.
//
// spec: cache-4, cache-13
func TestSpareScansFillAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addRepeated(300, 100, 1)
	s, c := r.caching(t, scan.Options{Budget: budget.New(1 << 30)}, 1<<28, nil)
	source, columns := r.source(), r.columns("id", "key", "x")
	source.Checked, source.Coded, source.Spare, source.Cache = nil, []int{2}, true, dataset.CacheOff
	require.NoError(t, r.read(s, source, columns).err)
	require.Zero(t, c.Stats().Units)
	source.Cache = dataset.CacheRead
	require.NoError(t, r.read(s, source, columns).err)
	require.EqualValues(t, 9, c.Stats().Filled)
	r.bytesRead()
	got := r.read(s, source, columns)
	require.NoError(t, got.err)
	require.Equal(t, r.want(source, columns, nil), got.lines)
	require.Zero(t, r.bytesRead())
}
