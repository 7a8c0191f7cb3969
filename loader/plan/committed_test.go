package plan_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// TestKnownOrdersAreConsistent checks the properties that joiner.Arrival requires, for random files
// in the order in which a stream has them.
func TestKnownOrdersAreConsistent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	unknown := 0
	for range 300 {
		var files []catalog.File
		for i := range 8 {
			f := catalog.File{Location: strconv.Itoa(i)}
			switch random.IntN(4) {
			case 0:
				f.Sequence = 1 + random.Int64N(3)
			case 1:
				f.Rank = 1 + random.IntN(3)
				f.Snapshot = int64(f.Rank)
			case 2:
				f.Rank, f.Snapshot = catalog.BeforeRanks, 4+random.Int64N(2)
			default:
				f.Rank, f.Snapshot = catalog.Unranked, 6+random.Int64N(2)
			}
			files = append(files, f)
		}
		slices.SortFunc(files, plan.ByCommit)
		known := plan.ArrivalOf(files).Known
		for i, a := range files {
			for j, b := range files {
				require.Equal(t, known(a.Location, b.Location), known(b.Location, a.Location))
				if !known(a.Location, b.Location) {
					unknown++
				}
				for _, c := range files[max(i, j):] {
					checkThree(t, known, [3]catalog.File{a, b, c}, i <= j)
				}
			}
		}
	}
	require.Positive(t, unknown)
}

// checkThree checks three files, which are in the order of the stream if ordered is set; the last
// is never before the others.
func checkThree(t *testing.T, known func(one, other string) bool, files [3]catalog.File, ordered bool) {
	t.Helper()
	a, b, c := files[0], files[1], files[2]
	ab, bc, ac := known(a.Location, b.Location), known(b.Location, c.Location), known(a.Location, c.Location)
	same := a.Sequence == 0 && c.Sequence == 0 && a.Snapshot == c.Snapshot
	if same {
		require.True(t, ac)
		require.Equal(t, ab, bc, "%+v %+v %+v", a, b, c)
	}
	if ordered && ab && bc {
		require.True(t, ac, "%+v %+v %+v", a, b, c)
	}
	if ordered && !bc && !same {
		require.False(t, ac, "%+v %+v %+v", a, b, c)
	}
}

var _ joiner.Arrival = (*plan.Arrival)(nil)
