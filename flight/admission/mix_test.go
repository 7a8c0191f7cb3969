package admission

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// Two ranks each read two datasets, and there are slots for three streams. In whatever order
// their streams come, one rank gets both slots, and the other waits for both.
//
// spec: wire-42
func TestStreamsOfAMixAreAdmittedTogether(t *testing.T) {
	for _, order := range [][]string{
		{"a0", "b0", "a1", "b1"}, {"a0", "b1", "b0", "a1"}, {"b0", "a0", "b1", "a1"}, {"b0", "b1", "a0", "a1"},
	} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := New(3, 100, time.Now)
				streams := map[string]*asking{}
				for _, name := range order {
					streams[name] = ask(t, a, mixed("host of "+name[:1], name[:1], "p"+name[1:], 2))
				}
				first, second := order[0][:1], "a"
				if first == "a" {
					second = "b"
				}
				require.True(t, streams[first+"0"].in() && streams[first+"1"].in())
				require.False(t, streams[second+"0"].over() || streams[second+"1"].over())
				streams[first+"0"].Release()
				require.True(t, streams[second+"0"].in() && streams[second+"1"].in())
				for _, one := range streams {
					one.Release()
				}
				empty(t, a)
			})
		})
	}
}

// spec: wire-42, wire-44
func TestAMixIsAdmittedAsAWhole(t *testing.T) {
	checkAll(t, map[string]slotCase{
		"or waits as a whole, and the streams behind it too": {3, 100, func(t *testing.T, a *Slots) {
			one, two := ask(t, a, alone("x")), ask(t, a, alone("x"))
			m0, other := ask(t, a, mixed("y", "m", "p0", 3)), ask(t, a, alone("z"))
			require.False(t, m0.over() || other.over(), "a free slot is not enough")
			one.Release()
			require.False(t, m0.over())
			m1 := ask(t, a, mixed("y", "m", "p1", 3))
			two.Release()
			require.True(t, m0.in() && m1.in() && !other.in())
			m2 := ask(t, a, mixed("y", "m", "p2", 3))
			require.True(t, m2.in(), "its slot was kept")
			m0.Release()
			require.True(t, other.in())
			for _, s := range []*asking{m1, m2, other} {
				s.Release()
			}
		}},
		"and blocks no stream after its deadline": {2, 100, func(t *testing.T, a *Slots) {
			one, m0 := ask(t, a, alone("x")), ask(t, a, mixed("y", "m", "p0", 2))
			time.Sleep(maxWait - time.Second)
			other := ask(t, a, alone("z"))
			require.False(t, m0.over() || other.over(), "one slot is free")
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, fault.Exhausted, fault.KindOf(m0.err))
			require.Equal(t, time.Second, fault.As(m0.err).RetryAfter)
			require.True(t, other.in())
			one.Release()
			other.Release()
		}},
		"within its host's share": {4, 50, func(t *testing.T, a *Slots) {
			one := ask(t, a, alone("x"))
			m0 := ask(t, a, mixed("x", "m", "p0", 2))
			other := ask(t, a, alone("z"))
			require.True(t, !m0.over() && other.in(), "a mix whose host has its share blocks no other host")
			one.Release()
			require.True(t, m0.in())
			require.Equal(t, 2, held(a, "x"), "with the slot that is kept")
			second := ask(t, a, alone("x"))
			require.False(t, second.over())
			m0.Release()
			require.True(t, second.in(), "nothing is kept for a mix without streams")
			second.Release()
			other.Release()
		}},
		"and never if it has more streams than its host may have": {4, 50, func(t *testing.T, a *Slots) {
			m0 := ask(t, a, mixed("x", "m", "p0", 3))
			require.True(t, m0.over())
			require.ErrorContains(t, m0.err, "the mix has 3 streams, and one client may have 2 open")
			require.Equal(t, fault.Exhausted, fault.KindOf(m0.err))
			require.Zero(t, fault.As(m0.err).RetryAfter, "a retry cannot help")
		}},
		"and keeps its slots for ten seconds": {2, 100, func(t *testing.T, a *Slots) {
			m0, other := ask(t, a, mixed("x", "m", "p0", 2)), ask(t, a, alone("y"))
			require.True(t, m0.in() && !other.over())
			time.Sleep(gathering)
			synctest.Wait()
			require.True(t, other.in())
			m1, third := ask(t, a, mixed("x", "m", "p1", 2)), ask(t, a, alone("z"))
			other.Release()
			require.True(t, m1.in() && !third.over(), "a late stream goes before others, also if their hosts have fewer")
			m0.Release()
			require.True(t, third.in())
			m1.Release()
			third.Release()
		}},
		"but no slots for more streams than it has": {3, 100, func(t *testing.T, a *Slots) {
			m0, m1 := ask(t, a, mixed("x", "m", "p0", 2)), ask(t, a, mixed("x", "m", "p1", 2))
			one := ask(t, a, alone("x"))
			more, other := ask(t, a, mixed("x", "m", "p2", 2)), ask(t, a, alone("y"))
			one.Release()
			require.True(t, other.in() && !more.over(), "the host with fewer streams goes first")
			m0.Release()
			require.True(t, more.in(), "there is one stream less")
			for _, s := range []*asking{m1, more, other} {
				s.Release()
			}
		}},
		"for no stream of another host": {2, 100, func(t *testing.T, a *Slots) {
			m0, other := ask(t, a, mixed("x", "m", "p0", 2)), ask(t, a, mixed("y", "m", "p1", 2))
			require.True(t, m0.in() && !other.over())
			m0.Release()
			require.True(t, other.in())
			other.Release()
		}},
		"and not again when a parked stream resumes": {2, 100, func(t *testing.T, a *Slots) {
			parked, other := a.Of(mixed("x", "m", "p0", 2)), ask(t, a, alone("y"))
			parked.Claim.Firm = true
			back := askAgain(t, parked)
			require.True(t, back.in())
			require.Zero(t, a.Counts().Kept)
			back.Release()
			other.Release()
		}},
		"and so do the ranks of a job": {8, 100, func(t *testing.T, a *Slots) {
			rank := func(index, of, member int) Stream {
				c := shard("host "+strconv.Itoa(index), "plan "+strconv.Itoa(member), index, of)
				c.Mix = Mix{"mix " + strconv.Itoa(index), 2}
				return c
			}
			a0 := ask(t, a, rank(0, 2, 0))
			require.Equal(t, 3, a.Counts().Kept, "for its own second stream, and two for the other rank")
			var others []*asking
			for range 5 {
				others = append(others, ask(t, a, alone("z")))
			}
			require.True(t, others[3].in() && !others[4].in())
			b0, b1, a1 := ask(t, a, rank(1, 2, 0)), ask(t, a, rank(1, 2, 1)), ask(t, a, rank(0, 2, 1))
			require.True(t, b0.in() && b1.in() && a1.in() && !others[4].over())
			require.Zero(t, a.Counts().Kept)
			for _, s := range append([]*asking{a0, a1, b0, b1}, others[:4]...) {
				s.Release()
			}
			require.True(t, others[4].in())
			others[4].Release()
		}},
		"without a limit": {0, 100, func(t *testing.T, a *Slots) {
			m0 := ask(t, a, mixed("x", "m", "p0", 3))
			require.True(t, m0.in())
			m0.Release()
		}},
	})
}
