package changes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// putSlots is a set of write slots under test, with a test clock.
type putSlots struct {
	*limits.Queue
	t *testing.T
}

// noPlace ends the wait of a call.
func noPlace() (time.Duration, error) { return 0, call.Busy("there is no place") }

// take takes a slot for a client, which must be free.
func (s putSlots) take(client string) *putSlot {
	s.t.Helper()
	claim := &limits.Claim{Client: client}
	require.NoError(s.t, s.Enter(s.t.Context(), claim, call.SlotWait, noPlace))
	return &putSlot{slots: s.Queue, claim: claim, timeout: putTimeout, clock: time.Now}
}

// queue makes a client wait for a slot, and returns the result.
func (s putSlots) queue(client string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		claim := &limits.Claim{Client: client}
		err := s.Enter(s.t.Context(), claim, call.SlotWait, noPlace)
		claim.Leave()
		ended <- err
	}()
	synctest.Wait()
	return ended
}

// silent makes a slot wait for a client that does nothing, and then leave.
func (p *putSlot) silent(t *testing.T, received int64) <-chan error {
	ended := make(chan error, 1)
	go func() {
		err := p.Wait(t.Context(), nil, received)
		p.leave()
		ended <- err
	}()
	synctest.Wait()
	return ended
}

// spec: stage-96
func TestSilentClientsLoseTheirSlotsToCallsThatWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(t *testing.T, s putSlots){
		"after a while": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 0)
			busy := s.take("two")
			began := time.Now()
			next := s.queue("three")
			err := <-one
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.ErrorContains(t, err, "another call waits for the slot")
			require.Contains(t, fault.As(err).Remedy, "the same token")
			require.Equal(t, putGrace, time.Since(began))
			require.NoError(t, <-next)
			busy.leave()
		},
		"no more of them than calls that wait": func(t *testing.T, s putSlots) {
			one, two := s.take("one").silent(t, 0), s.take("two").silent(t, 0)
			next := s.queue("three")
			var err error
			select {
			case err = <-one:
				one = nil
			case err = <-two:
				two = nil
			}
			require.ErrorContains(t, err, "another call waits")
			require.NoError(t, <-next)
			began := time.Now()
			select { // the other one stays until a client may take no longer
			case err = <-one:
			case err = <-two:
			}
			require.ErrorContains(t, err, "nothing whole")
			require.Equal(t, putTimeout-putGrace, time.Since(began))
		},
		"at once if they have been silent for long": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 0)
			busy := s.take("two")
			time.Sleep(time.Minute)
			began := time.Now()
			next := s.queue("three")
			require.ErrorContains(t, <-one, "another call waits")
			require.Zero(t, time.Since(began))
			require.NoError(t, <-next)
			busy.leave()
		},
		"later if they have sent more": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 5*putRate)
			busy := s.take("two")
			began := time.Now()
			next := s.queue("three")
			require.ErrorContains(t, <-one, "another call waits")
			require.Equal(t, putGrace+5*time.Second, time.Since(began))
			require.NoError(t, <-next)
			busy.leave()
		},
		"as one time, not one for each message": func(t *testing.T, s putSlots) {
			one, busy := s.take("one"), s.take("two")
			next := s.queue("three")
			messages := 0
			began := time.Now()
			for {
				done := make(chan struct{})
				time.AfterFunc(putGrace/4, func() { close(done) })
				if err := one.Wait(t.Context(), done, 100); err != nil {
					require.ErrorContains(t, err, "another call waits")
					break
				}
				messages++
			}
			require.InDelta(t, 3.5, messages, 0.5)
			require.Equal(t, putGrace, time.Since(began))
			one.leave()
			require.NoError(t, <-next)
			busy.leave()
		},
		"not to a client that has its share": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 0)
			busy := s.take("two")
			next := s.queue("two")
			began := time.Now()
			require.Equal(t, fault.Exhausted, fault.KindOf(<-next))
			require.Equal(t, call.SlotWait, time.Since(began))
			require.ErrorContains(t, <-one, "nothing whole")
			busy.leave()
		},
		"if they read nothing": func(t *testing.T, s putSlots) {
			one, busy := s.take("one"), s.take("two")
			next := s.queue("three")
			ends := make(chan struct{})
			err := one.send(t.Context(), 0, func() error { <-ends; return nil })
			close(ends)
			require.ErrorContains(t, err, "another call waits")
			one.leave()
			require.NoError(t, <-next)
			busy.leave()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := putSlots{call.NewQueue(2, 50, time.Now, manyWrites), t}
				c(t, s)
				synctest.Wait()
				now := s.Counts()
				require.Zero(t, now.Taken+now.Waiting)
			})
		})
	}
}

// A call without a slot gives up, and its error has a retry delay.
//
// spec: stage-66
func TestCallsWithoutAPlaceAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Places: 1, Share: 100, Ticks: time.Now})
		c := &call.Call{Host: "192.0.2.1"}
		first, err := w.slot(t.Context(), c, 0)
		require.NoError(t, err)
		began := time.Now()
		_, err = w.slot(t.Context(), c, 0)
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.ErrorContains(t, err, "take all 1 slots")
		require.NotZero(t, fault.As(err).RetryAfter)
		require.Equal(t, call.SlotWait, time.Since(began))
		open, waiting := w.Counts()
		require.Equal(t, []int{1, 0}, []int{open, waiting})
		first.leave()
		first, err = w.slot(t.Context(), c, 0)
		require.NoError(t, err)
		first.leave()
	})
}

// A change with an unknown outcome is reported as such, even if the server ends.
//
// spec: stage-68
func TestEndsOfTheServerKeepUncertainChanges(t *testing.T) {
	const token = "20261001T120000.000Z-test"
	uncertain := commit.AsUncertain(fault.New(fault.Unavailable, "no answer"))
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(failure.ByServer(fault.New(fault.Unavailable, "the server is shutting down")))
	require.ErrorIs(t, putEnded(ended, uncertain, token), uncertain)
	require.Contains(t, fault.As(putEnded(ended, context.Canceled, token)).Remedy, token)
	require.True(t, failure.IsByServer(putEnded(ended, context.Canceled, token)))
}
