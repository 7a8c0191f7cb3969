package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Snapshots 1 to 5 are consecutive, 12 and 13 are children of 2, and 8 has no parent. 21 is
// a child of 20, which is gone, and 31 and 32 are each other's parents.
//
// spec: since-2, since-3, since-4
func TestAfter(t *testing.T) {
	t.Parallel()
	parents := map[int64]int64{1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 12: 2, 13: 12, 8: 0, 21: 20, 31: 32, 32: 31}
	parent := func(id int64) (int64, bool) {
		above, known := parents[id]
		return above, known
	}
	for _, c := range []struct {
		name          string
		since, pinned int64
		want          []int64
		kind          fault.Kind
		text          string
	}{
		{"an ancestor", 2, 5, []int64{3, 4, 5}, 0, ""},
		{"the parent", 4, 5, []int64{5}, 0, ""},
		{"itself", 5, 5, nil, 0, ""},
		{"an ancestor that is gone", 20, 21, []int64{21}, 0, ""},
		{"beyond one that is gone", 1, 21, nil, fault.Expired, "snapshot 20 of table t.t no longer exists, and what was appended since 1 cannot be determined"},
		{"gone, or never there", 77, 5, nil, fault.Expired, "snapshot 77 of table t.t no longer exists"},
		{"a descendant", 5, 3, nil, fault.Invalid, "since: snapshot 5 is not an ancestor of snapshot 3 of table t.t, the one that is read; name 3, the newest ancestor of both, or another one of 3, 2, 1"},
		{"on another branch", 13, 5, nil, fault.Invalid, "name 2, the newest ancestor of both, or another one of 5, 4, 3, 2, 1"},
		{"of a parent that is gone", 21, 5, nil, fault.Invalid, "name one of its ancestors: 5, 4, 3, 2, 1"},
		{"from another beginning", 8, 5, nil, fault.Expired, "the parent of snapshot 1 of table t.t has expired"},
		{"in a circle", 31, 5, nil, fault.Invalid, "snapshot 31 is not an ancestor of snapshot 5"},
		{"to a circle", 5, 31, nil, fault.Expired, "the parent of snapshot 32 of table t.t has expired"},
		{"of no snapshot", 5, dataset.NoSnapshot, nil, fault.Invalid, "table t.t has no snapshot to read"},
	} {
		got, err := catalog.After("t.t", c.since, c.pinned, parent)
		if c.text == "" {
			require.NoError(t, err, c.name)
			require.Equal(t, c.want, got, c.name)
			continue
		}
		require.Equal(t, c.kind.String(), fault.KindOf(err).String(), c.name)
		require.ErrorContains(t, err, c.text, c.name)
		require.Equal(t, "t.t", fault.As(err).Table, c.name)
		require.Empty(t, got, c.name)
	}
}
