package joined_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestKeptBuildSidesGiveTheSame reads streams of one loader that keeps build sides, with much and with
// little memory, and parks some of them. Rows and counts are those of a loader that keeps none.
//
// spec: join-96
func TestKeptBuildSidesGiveTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(31, 32))
	hits := int64(0)
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 20, 1000), func(*scenario.Case) {}) {
		m := loadertest.Made(t, c)
		want, err := scenario.Read(context.Background(), m.Loader(), c.Query)
		require.NoError(t, err, c.Name)
		for _, size := range []int64{loadertest.Plenty, 1 << 16} {
			mem, limit := memory.NewCheckedAllocator(batch.Default()), budget.New(size)
			l := loader.New(loader.Options{
				Datasets: []dataset.Dataset{m.Dataset}, Catalog: m.World, Scan: m.Scan, Memory: mem, Budget: limit, KeepBuildSides: size / 2,
			})
			for range 3 {
				got, err := scenario.ReadBetween(context.Background(), l, c.Query, func(s loader.Stream) {
					if random.IntN(3) == 0 {
						s.Park(false)
					}
				})
				if size < loadertest.Plenty && fault.KindOf(err) == fault.Exhausted {
					continue
				}
				require.NoError(t, err, c.Name)
				require.Len(t, got, len(want))
				for i := range want {
					require.Equal(t, scenario.Texts(want[i].Rows()), scenario.Texts(got[i].Rows()), c.Name)
					require.Equal(t, want[i].Cursors, got[i].Cursors, c.Name)
				}
			}
			require.LessOrEqual(t, limit.Peak(), size)
			require.Zero(t, limit.InUse(), c.Name)
			hits += l.KeptBuildSides().Hits
			l.DropKeptBuildSides()
			require.Zero(t, limit.Used(), c.Name)
			mem.AssertSize(t, 0)
		}
	}
	require.Positive(t, hits)
}
