package admission

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// slotCase is a test of a number of slots, of which one client may have a percentage.
type slotCase struct {
	limit, percent int
	check          func(t *testing.T, a *Slots)
}

// checkAll runs cases, each in a bubble of its own. All streams must have left their slots at the end.
func checkAll(t *testing.T, cases map[string]slotCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := New(c.limit, c.percent, time.Now)
				c.check(t, a)
				empty(t, a)
			})
		})
	}
}

// alone returns a stream that is the only shard of its plan.
func alone(host string) Stream { return Stream{Client: host, Plan: "p"} }

// shard returns a stream of one shard of a plan.
func shard(host, plan string, index, of int) Stream {
	return Stream{Client: host, Plan: plan, Shard: dataset.Shard{Index: index, Of: of}}
}

// asking is a stream that waits for a slot on a goroutine of its own.
type asking struct {
	*Slot
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

// mixed returns a stream of a mix: the only shard of a plan of its own.
func mixed(host, id, plan string, streams int) Stream {
	return Stream{Client: host, Plan: plan, Mix: Mix{id, streams}}
}

func ask(t *testing.T, a *Slots, c Stream) *asking { return askAgain(t, a.Of(c)) }

func askAgain(t *testing.T, at *Slot) *asking {
	one := &asking{Slot: at}
	one.begin(t)
	return one
}

// begin makes a stream wait for a slot.
func (one *asking) begin(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	one.cancel, one.done = cancel, make(chan struct{})
	go func() {
		defer close(one.done)
		one.err = one.Enter(ctx)
	}()
	synctest.Wait()
}

// in reports whether a stream has a slot.
func (one *asking) in() bool {
	return one.over() && one.err == nil
}

// over reports whether a stream has stopped waiting.
func (one *asking) over() bool {
	synctest.Wait()
	return one.ended()
}

// ended is over at rest.
func (one *asking) ended() bool {
	select {
	case <-one.done:
		return true
	default:
		return false
	}
}

// empty checks that no slot is taken or kept, and that no stream waits.
func empty(t *testing.T, a *Slots) {
	t.Helper()
	synctest.Wait()
	a.Look(func() {
		now := a.Current()
		require.Zero(t, now.Taken+now.Kept+now.Waiting)
		require.Empty(t, a.gangs)
		require.Empty(t, a.mixes)
		for _, host := range []string{"x", "y", "z", "q", "0", "1", "2"} {
			require.Zero(t, a.Held(host))
		}
	})
}

// held returns how many slots a host has, including those that are kept for it.
func held(a *Slots, host string) (slots int) {
	a.Look(func() { slots = a.Held(host) })
	return slots
}

// lacking sets a stream back that has a slot, and makes it wait for another one.
func (one *asking) lacking(t *testing.T) {
	one.setBack(errLacks)
	one.begin(t)
}

var errLacks = fault.New(fault.Exhausted, "it lacks memory")

// anyIn returns one of the streams that have slots; nil if there is none.
func anyIn(of []*asking, r *rand.Rand) *asking {
	for _, i := range r.Perm(len(of)) {
		if of[i].in() {
			return of[i]
		}
	}
	return nil
}
