package joiner

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner/rule"
)

// searched looks up keys with a new search, batch by batch.
func searched(t *testing.T, x keyIndex, batches [][]int64) [][]int32 {
	s := x.newSearch()
	var out [][]int32
	for _, keys := range batches {
		refs := make([]int32, len(keys))
		require.NoError(t, s.lookup(t.Context(), &Keys{rows: len(keys), encoded: keyVector{ints: keys}}, refs))
		out = append(out, refs)
	}
	return out
}

func newMerged(how rule.Strategy, keys []int64, limit int64) *sortedKeys {
	held, _ := budget.New(limit).Reserve("s", 0)
	return &sortedKeys{keys: keyVector{ints: keys}, to: int32(len(keys)), rows: int64(len(keys)), how: how, held: held}
}

// Searches that jump, miss, repeat, and pass both ends.
// spec: join-40, join-42
func TestSearchesAgree(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		keys := make([]int64, r.IntN(50))
		for i := range keys {
			keys[i] = int64(r.IntN(40)) * 2
		}
		slices.Sort(keys)
		var batches [][]int64
		for range 4 {
			wanted := make([]int64, r.IntN(40))
			for i := range wanted {
				wanted[i] = int64(r.IntN(90)) - 5
				if i > 0 && r.IntN(2) == 0 {
					wanted[i] = wanted[i-1] + int64(r.IntN(3))
				}
			}
			if r.IntN(2) == 0 {
				slices.Sort(wanted)
			}
			batches = append(batches, wanted)
		}
		x := newHashIndex(keyVector{ints: keys}, int64(len(keys)))
		for i := range keys {
			x.add(int32(i))
		}
		want := searched(t, x, batches)
		for _, how := range []rule.Strategy{rule.StrategyAuto, rule.StrategyMerge, rule.StrategyZip} {
			require.Equal(t, want, searched(t, newMerged(how, keys, 1<<20), batches), "strategy %d", how)
		}
	}
}

// spec: join-42, join-44
func TestAutoIndexesWhenSearchesJump(t *testing.T) {
	keys := make([]int64, 4000)
	for i := range keys {
		keys[i] = int64(i)
	}
	jumping := slices.Clone(keys)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(jumping), func(i, j int) { jumping[i], jumping[j] = jumping[j], jumping[i] })
	cases := map[string]struct {
		how    rule.Strategy
		wanted []int64
		limit  int64
		want   string
	}{
		"ascending keys need none": {rule.StrategyAuto, keys, 1 << 20, "merge"},
		"keys that jump":           {rule.StrategyAuto, jumping, 1 << 20, "index"},
		"no memory for one":        {rule.StrategyAuto, jumping, 1000, "merge"},
		"merge means merge":        {rule.StrategyMerge, jumping, 1 << 20, "merge"},
		"zip means zip":            {rule.StrategyZip, jumping, 1 << 20, "zip"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMerged(c.how, keys, c.limit)
			var wait sync.WaitGroup
			for range 3 { // joins that share the build side
				wait.Go(func() {
					for _, refs := range searched(t, m, [][]int64{c.wanted, c.wanted}) {
						for i, ref := range refs {
							if int64(ref) != c.wanted[i]+1 {
								t.Errorf("key %d finds reference %d", c.wanted[i], ref)
							}
						}
					}
				})
			}
			wait.Wait()
			require.Equal(t, c.want, m.strategy())
			require.Equal(t, c.want == "index", m.held.Held() > 0)
		})
	}
}
