package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// Streams that are set back wait for the memory of others, in order, and not forever.
//
// spec: wire-52
func TestStreamsSetBackWaitForOthers(t *testing.T) {
	checkAll(t, map[string]slotCase{
		"until another stream ends": {4, 75, func(t *testing.T, a *Slots) {
			one, two, three := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			three.lacking(t)
			two.lacking(t)
			next := ask(t, a, alone("y"))
			require.False(t, two.over() || three.over() || next.over(), "the budget carries one")
			one.Release()
			require.True(t, three.in() && !two.in() && !next.in())
			three.Release()
			require.True(t, two.in() && !next.in())
			two.Release()
			require.True(t, next.in())
			next.Release()
		}},
		"until memory is plentiful": {4, 75, func(t *testing.T, a *Slots) {
			one, two, three := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			three.lacking(t)
			two.lacking(t)
			next := ask(t, a, alone("y"))
			a.Relax(false)
			require.False(t, two.over() || three.over() || next.over())
			a.Relax(true)
			require.False(t, two.over() || three.over() || next.over(), "too soon")
			time.Sleep(raiseAfter)
			a.Relax(true)
			require.True(t, three.in() && !two.in() && !next.in(), "one more")
			time.Sleep(raiseAfter)
			a.Relax(true)
			require.True(t, two.in() && !next.in(), "one more")
			for _, of := range []*asking{one, two, three} {
				of.Release()
			}
			require.True(t, next.in())
			next.Release()
		}},
		"but not if all were set back": {4, 75, func(t *testing.T, a *Slots) {
			one, two := ask(t, a, alone("x")), ask(t, a, alone("x"))
			one.lacking(t)
			two.lacking(t)
			require.False(t, one.over() || two.over())
			a.Relax(false)
			require.True(t, one.in() && !two.in(), "one at a time")
			one.Release()
			require.True(t, two.in())
			two.Release()
		}},
		"and not for the slots of siblings": {4, 75, func(t *testing.T, a *Slots) {
			one, two := ask(t, a, alone("x")), ask(t, a, shard("x", "p", 0, 2))
			two.lacking(t)
			sibling := ask(t, a, shard("x", "p", 1, 2))
			require.False(t, sibling.over() || two.over(), "no slot is kept")
			one.Release()
			require.True(t, two.in() && !sibling.in())
			two.Release()
			require.True(t, sibling.in())
			sibling.Release()
		}},
		"a mix has all of its slots if no stream is open": {4, 75, func(t *testing.T, a *Slots) {
			one := ask(t, a, alone("x"))
			one.lacking(t)
			one.cancel()
			require.True(t, one.over())
			mix := alone("y")
			mix.Mix = Mix{"m", 2}
			first, second := ask(t, a, mix), ask(t, a, mix)
			require.True(t, first.in() && second.in())
			first.Release()
			second.Release()
		}},
		"while new streams name the memory budget": {4, 75, func(t *testing.T, a *Slots) {
			one, two := ask(t, a, alone("x")), ask(t, a, alone("x"))
			two.lacking(t)
			next := ask(t, a, alone("y"))
			time.Sleep(maxWait)
			require.True(t, two.over() && next.over())
			require.ErrorContains(t, next.err, "1 stream is open, as many as the memory budget carries")
			one.Release()
		}},
		"longer while others leave": {4, 75, func(t *testing.T, a *Slots) {
			one, two, three := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			three.lacking(t)
			two.lacking(t)
			next := ask(t, a, alone("y"))
			time.Sleep(maxWait - time.Second)
			one.Release()
			require.True(t, three.in())
			time.Sleep(maxWait - time.Second)
			require.True(t, three.mayRetry(), "one has left since")
			require.False(t, two.over() || next.over())
			time.Sleep(time.Second)
			require.True(t, two.over() && next.over(), "no stream has left for half a minute")
			require.Equal(t, fault.Exhausted, fault.KindOf(two.err))
			require.Equal(t, fault.Exhausted, fault.KindOf(next.err))
			require.False(t, three.mayRetry())
			three.Release()
		}},
		"half a minute in all": {4, 75, func(t *testing.T, a *Slots) {
			one, two := ask(t, a, alone("x")), ask(t, a, alone("x"))
			two.lacking(t)
			time.Sleep(maxWait - time.Second)
			a.Relax(true)
			require.True(t, two.in())
			require.True(t, two.mayRetry())
			two.lacking(t)
			time.Sleep(time.Second)
			require.True(t, two.over())
			require.ErrorIs(t, two.err, errLacks)
			one.Release()
			next := ask(t, a, alone("x"))
			require.True(t, next.in())
			next.Release()
		}},
	})
}
