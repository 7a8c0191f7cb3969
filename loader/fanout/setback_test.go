package fanout_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// TestMembersSetBackContinue has scans fail and sets the members back: each gets all rows, once.
//
// spec: wire-52
func TestMembersSetBackContinue(t *testing.T) {
	t.Parallel()
	const failing = 24 // scans, every other of which fails
	for _, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireAuto} {
		k := newKit(t, 100, plenty, same)
		q := query(func(q *dataset.Query) { q.Wire = wire })
		want := k.alone(t, q)
		members := []loader.Stream{k.open(t.Context(), t, q), k.open(t.Context(), t, q)}
		got := make([][]string, len(members))
		var scans atomic.Int64
		k.set(func(context.Context, string) error {
			if n := scans.Add(1); n <= failing && n%2 == 1 {
				return fault.New(fault.Exhausted, "it lacks memory")
			}
			return nil
		})
		back := 0
		for over := 0; over < len(members); {
			over = 0
			for i, m := range members {
				switch {
				case m.Begin() == nil && m.Next():
					got[i] = append(got[i], given(m))
				case m.Err() == nil:
					over++
				default:
					require.Equal(t, fault.Exhausted, fault.KindOf(m.Err()))
					require.True(t, m.SetBack())
					require.NoError(t, m.Err())
					require.False(t, m.SetBack(), "it has not failed")
					back++
				}
			}
			if over == 0 && scans.Load() < failing {
				members[0].Park(false) // the files are opened again
				members[1].Park(false)
			}
		}
		require.Positive(t, back)
		for i, m := range members {
			require.Equal(t, want, got[i])
			require.EqualValues(t, 100, m.Report().Rows)
			m.Release()
		}
		require.Zero(t, k.budget.Used())
	}
}
