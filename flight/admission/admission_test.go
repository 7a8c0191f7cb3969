package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestSlotsAreAssigned(t *testing.T) {
	checkAll(t, map[string]slotCase{
		"in order of arrival": {1, 100, func(t *testing.T, a *Slots) {
			first, second, third := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			require.True(t, first.in() && !second.in() && !third.in())
			require.Equal(t, 2, a.Counts().Waiting)
			first.Release()
			require.True(t, second.in() && !third.in())
			second.Release()
			require.True(t, third.in())
			third.Release()
			third.Release()
		}},
		"the host with fewer goes first": {3, 100, func(t *testing.T, a *Slots) {
			x1, x2, y1 := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("y"))
			x3, y2, z := ask(t, a, alone("x")), ask(t, a, alone("y")), ask(t, a, alone("z"))
			x1.Release()
			require.True(t, z.in() && !x3.in() && !y2.in())
			z.Release()
			require.True(t, x3.in() && !y2.in(), "in order of arrival if both hosts have one")
			for _, one := range []*asking{x2, x3, y1} {
				one.Release()
			}
			require.True(t, y2.in())
			y2.Release()
		}},
		"no host has more than its share": {4, 75, func(t *testing.T, a *Slots) {
			var of []*asking
			for range 4 {
				of = append(of, ask(t, a, alone("x")))
			}
			require.True(t, of[2].in() && !of[3].in())
			other := ask(t, a, alone("y"))
			require.True(t, other.in())
			require.False(t, a.Yield(&other.Claim), "the slot of another host would not help")
			require.True(t, a.Yield(&of[0].Claim))
			require.False(t, a.Yield(&of[3].Claim), "it has none")
			time.Sleep(maxWait)
			synctest.Wait()
			require.ErrorContains(t, of[3].err, "this client has 3 streams open, its share of the 4")
			for _, one := range append(of, other) {
				one.Release()
			}
		}},
		"a waiter fails in the end, with a hint": {1, 100, func(t *testing.T, a *Slots) {
			first, second := ask(t, a, alone("x")), ask(t, a, alone("y"))
			time.Sleep(maxWait - time.Millisecond)
			synctest.Wait()
			require.False(t, second.over())
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.Equal(t, fault.Exhausted, fault.KindOf(second.err))
			require.Equal(t, time.Second, fault.As(second.err).RetryAfter)
			require.Zero(t, a.Counts().Waiting)
			first.Release()
		}},
		"a cancelled stream stops waiting": {1, 100, func(t *testing.T, a *Slots) {
			first, second, third := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			second.cancel()
			synctest.Wait()
			require.ErrorIs(t, second.err, context.Canceled)
			first.Release()
			require.True(t, third.in())
			third.Release()
		}},
		"the queue is bounded": {1, 100, func(t *testing.T, a *Slots) {
			first := ask(t, a, alone("x"))
			var waiting []*asking
			for range queuePerSlot {
				waiting = append(waiting, ask(t, a, alone("x")))
			}
			late := ask(t, a, alone("x"))
			require.True(t, late.over())
			require.ErrorContains(t, late.err, "no slot is free: 4 streams are already waiting, and 1 stream is open")
			require.Equal(t, fault.Exhausted, fault.KindOf(late.err))
			require.NotZero(t, fault.As(late.err).RetryAfter)
			y := ask(t, a, alone("y"))
			require.True(t, waiting[queuePerSlot-1].over() && !y.over(), "the last of the host with most makes room")
			require.Equal(t, fault.Exhausted, fault.KindOf(waiting[queuePerSlot-1].err))
			require.Equal(t, queuePerSlot, a.Counts().Waiting)
			waiting = append(waiting, y)
			parked := a.Of(alone("z"))
			parked.Claim.Firm = true
			back := askAgain(t, parked)
			first.Release()
			require.True(t, back.in(), "a parked stream may always wait, and goes first")
			for _, one := range append(waiting, back) {
				one.cancel()
				synctest.Wait()
				one.Release()
			}
		}},
		"shards come in together": {7, 100, func(t *testing.T, a *Slots) {
			a0 := ask(t, a, shard("x", "a", 0, 4))
			others := []*asking{ask(t, a, alone("q")), ask(t, a, alone("q")), ask(t, a, alone("q")), ask(t, a, alone("q"))}
			require.True(t, a0.in() && others[2].in() && !others[3].in(), "half of the free slots are kept")
			a2, a1, a3 := ask(t, a, shard("y", "a", 2, 4)), ask(t, a, shard("x", "a", 1, 4)), ask(t, a, shard("z", "a", 3, 4))
			require.True(t, a1.in() && a2.in() && a3.in() && !others[3].in())
			again := ask(t, a, shard("x", "a", 3, 4))
			require.False(t, again.over(), "shard 3 has a slot, and none is kept for a second one")
			for _, one := range append(others[:3], a0, a1, a2, a3) {
				one.Release()
			}
			require.True(t, others[3].in() && again.in())
			others[3].Release()
			again.Release()
		}},
		"siblings that wait already are admitted together": {4, 100, func(t *testing.T, a *Slots) {
			var first, siblings []*asking
			for range 4 {
				first = append(first, ask(t, a, alone("q")))
			}
			for i := range 3 {
				siblings = append(siblings, ask(t, a, shard("x", "a", i, 3)))
			}
			a.Change(func() { // all at once
				for _, one := range first {
					one.leave()
				}
			})
			for _, one := range siblings {
				require.True(t, one.in())
				one.Release()
			}
		}},
		"a host that reads split by split does not block others": {8, 100, func(t *testing.T, a *Slots) {
			x, y := ask(t, a, shard("x", "a", 0, 100)), ask(t, a, shard("y", "b", 0, 100))
			require.True(t, x.in() && y.in())
			x.Release()
			x = ask(t, a, shard("x", "a", 1, 100))
			require.True(t, x.in())
			x.Release()
			y.Release()
		}},
		"a kept slot is found": {9, 100, func(t *testing.T, a *Slots) {
			a0, b0 := ask(t, a, shard("x", "a", 0, 2)), ask(t, a, shard("y", "a", 0, 2))
			a1, b1 := ask(t, a, shard("x", "a", 1, 2)), ask(t, a, shard("y", "a", 1, 2))
			a1.Release() // the first gang keeps no slot any more
			require.Zero(t, a.Counts().Kept)
			require.True(t, b1.in())
			for _, one := range []*asking{a0, b0, b1} {
				one.Release()
			}
		}},
		"a kept slot is found behind a stream that waits for a free one": {2, 100, func(t *testing.T, a *Slots) {
			a0, parked := ask(t, a, shard("x", "a", 0, 2)), a.Of(alone("y"))
			parked.Claim.Firm = true
			back := askAgain(t, parked)
			require.False(t, back.over(), "the only other slot is kept")
			a1 := ask(t, a, shard("x", "a", 1, 2))
			require.True(t, a1.in() && !back.over())
			a0.Release()
			require.True(t, back.in())
			a1.Release()
			back.Release()
		}},
		"a parked stream keeps no slots when it resumes": {4, 100, func(t *testing.T, a *Slots) {
			parked := a.Of(shard("x", "a", 0, 3))
			parked.Claim.Firm = true
			back := askAgain(t, parked)
			require.True(t, back.in())
			require.Zero(t, a.Counts().Kept)
			back.Release()
		}},
		"a sibling goes before others": {2, 100, func(t *testing.T, a *Slots) {
			first, a0 := ask(t, a, alone("x")), ask(t, a, shard("x", "a", 0, 4))
			new1, a2 := ask(t, a, alone("new")), ask(t, a, shard("x", "a", 2, 4))
			first.Release()
			require.True(t, a0.in() && a2.in() && !new1.in())
			time.Sleep(gathering)
			a3 := ask(t, a, shard("x", "a", 3, 4))
			a0.Release()
			require.True(t, new1.in() && !a3.in(), "but only for a while")
			a2.Release()
			require.True(t, a3.in())
			a3.Release()
			new1.Release()
		}},
		"slots that no shard takes are freed": {4, 100, func(t *testing.T, a *Slots) {
			a0, one, other := ask(t, a, shard("x", "a", 0, 100)), ask(t, a, alone("y")), ask(t, a, alone("y"))
			require.True(t, a0.in() && one.in() && !other.in())
			time.Sleep(gathering)
			require.True(t, other.in())
			a0.Release()
			one.Release()
			other.Release()
		}},
		"the same shard twice makes two gangs": {4, 100, func(t *testing.T, a *Slots) {
			var of []*asking
			for _, index := range []int{0, 0, 1, 1} {
				of = append(of, ask(t, a, shard("x", "a", index, 2)))
				require.True(t, of[len(of)-1].in())
			}
			require.Len(t, a.gangs[gangKey{"a", 2}], 2)
			for _, one := range of {
				one.Release()
			}
		}},
		"no limit": {0, 100, func(t *testing.T, a *Slots) {
			for i := range 100 {
				one := ask(t, a, shard("x", "a", i%3, 3))
				require.True(t, one.in())
				one.Release()
			}
		}},
		"closing stops only new streams from waiting": {1, 100, func(t *testing.T, a *Slots) {
			first, second := ask(t, a, alone("x")), ask(t, a, alone("x"))
			parked := a.Of(alone("x"))
			parked.Claim.Firm = true
			third := askAgain(t, parked)
			a.Shutdown()
			require.True(t, second.over() && !third.over())
			require.Equal(t, fault.Unavailable, fault.KindOf(second.err))
			late := ask(t, a, alone("y"))
			require.True(t, late.over())
			require.Equal(t, fault.Unavailable, fault.KindOf(late.err))
			first.Release()
			require.True(t, third.in())
			third.Release()
		}},
	})
}

// One host cannot fill the queue, and a stream that finds a free slot does not wait.
//
// spec: wire-14
func TestOneHostDoesNotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(4, 75, time.Now)
		for range 3 + 16 {
			defer ask(t, a, alone("greedy")).cancel()
		}
		require.Equal(t, 3, a.Counts().Taken)
		other := ask(t, a, alone("innocent"))
		require.True(t, other.over())
		require.NoError(t, other.err, "one of 4 slots is free")
		other.Release()
	})
}

// Hosts that read split by split, within their shares, do not block other hosts.
//
// spec: wire-14
func TestSplitReadersDoNotBlockOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(4, 75, time.Now)
		at := map[string]int{}
		next := func(host string) *asking {
			at[host]++
			return ask(t, a, shard(host, "plan of "+host, at[host], 10_000))
		}
		var open []*asking
		for range 4 { // each host stays within its share
			open = append(open, next("x"), next("y"))
		}
		z := ask(t, a, alone("z"))
		for range 60 {
			time.Sleep(time.Second)
			for i, one := range open {
				if one.in() { // a split took a second
					one.Release()
					open[i] = next(one.Claim.Client)
				} else if one.over() {
					open[i] = next(one.Claim.Client)
				}
			}
			if z.over() {
				break
			}
		}
		require.True(t, z.in(), "%v", z.err)
		for _, one := range open {
			one.cancel()
			synctest.Wait()
			one.Release()
		}
		z.Release()
	})
}

// The invariants hold while streams come, wait, are cancelled and time out at random.
func TestSlotsAlwaysAddUp(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			limit, percent := 1+r.IntN(6), 25+r.IntN(76)
			a := New(limit, percent, time.Now)
			var open []*asking
			for range 60 {
				if len(open) > 0 && r.IntN(2) == 0 {
					i := r.IntN(len(open))
					one := open[i]
					open = append(open[:i], open[i+1:]...)
					one.cancel()
					synctest.Wait()
					one.Release()
				} else if one := anyIn(open, r); one != nil && r.IntN(4) == 0 {
					one.lacking(t)
				} else {
					of := 1 + r.IntN(3)
					c := shard(strconv.Itoa(r.IntN(3)), strconv.Itoa(r.IntN(2)), r.IntN(of), of)
					if r.IntN(2) == 0 {
						c.Mix = Mix{strconv.Itoa(r.IntN(3)), 1 + r.IntN(3)}
					}
					open = append(open, ask(t, a, c))
				}
				if r.IntN(5) == 0 {
					a.Relax(r.IntN(2) == 0)
				}
				if r.IntN(5) == 0 {
					time.Sleep(time.Duration(r.IntN(int(2 * gathering))))
				}
				synctest.Wait()
				a.adds(t, open)
			}
			for _, one := range open {
				one.cancel()
				synctest.Wait()
				require.True(t, one.err == nil || errors.Is(one.err, context.Canceled) || fault.KindOf(one.err) == fault.Exhausted)
				one.Release()
			}
			empty(t, a)
		})
	}
}

// adds checks the invariants of admission, at rest, with streams that have slots or wait.
func (a *Slots) adds(t *testing.T, open []*asking) {
	t.Helper()
	a.Look(func() {
		now := a.Current()
		require.LessOrEqual(t, now.Taken+now.Kept, now.Places)
		taken, kept, ofMixes := 0, 0, 0
		for host := range 3 {
			held := a.Held(strconv.Itoa(host))
			require.LessOrEqual(t, held, now.Share)
			taken += held
		}
		for _, gangs := range a.gangs {
			for _, g := range gangs {
				require.NotEmpty(t, g.streams)
				kept += g.kept.Places()
			}
		}
		for _, m := range a.mixes {
			require.NotEmpty(t, m.streams)
			require.GreaterOrEqual(t, m.kept.Places(), 0)
			ofMixes += m.kept.Places()
		}
		require.Equal(t, now.Kept, kept+ofMixes)
		require.Equal(t, now.Taken, taken-ofMixes, "a host's slots include those kept for its mixes")
		var waiting []*asking
		blocked := false
		for _, p := range open {
			if p.Claim.Has() || p.ended() {
				continue
			}
			waiting = append(waiting, p)
			needs := a.needs(p.Slot)
			blocked = blocked || !a.mayTry(p.Slot) || needs > 1 && now.Taken+now.Kept+needs > now.Most && a.Held(p.Claim.Client)+needs <= now.Share
		}
		require.Len(t, waiting, now.Waiting)
		if now.Taken+now.Kept < now.Most && !blocked {
			for _, p := range waiting {
				require.Greater(t, a.Held(p.Claim.Client)+a.needs(p.Slot), now.Share, "no stream waits while a slot is free, but behind a mix")
			}
		}
	})
}
