package call

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/inbound"
	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
)

func TestCallsCountAgainstTheirSubjectsAndHosts(t *testing.T) {
	connection := &inbound.Connection{}
	for name, c := range map[string]struct {
		call           Call
		client, writer string
	}{
		"a subject":                     {Call{Caller: identity.Caller{Subject: "alice"}, Host: "127.0.0.1"}, "subject alice", "subject alice"},
		"another host":                  {Call{Host: "192.0.2.1"}, "192.0.2.1", "192.0.2.1"},
		"the server's own host":         {Call{Host: "127.0.0.1", Connection: connection}, "127.0.0.1", "connection 0"},
		"the server's own host in IPv6": {Call{Host: "::1", Connection: connection}, "::1", "connection 0"},
		"a socket":                      {Call{Connection: connection}, "", "connection 0"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.client, c.call.Client())
			require.Equal(t, c.writer, c.call.Writer())
		})
	}
}

func TestACallHasOneSlotAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, plans := NewQueue(1, 100, time.Now, ManyPlans), NewQueue(1, 100, time.Now, ManyPlans)
		taken := func() []int { return []int{calls.Counts().Taken, plans.Counts().Taken} }
		s := &Slot{Calls: calls, Plans: plans, Client: "one"}
		require.NoError(t, s.EnterCall(t.Context()))
		require.Equal(t, []int{1, 0}, taken())
		require.NoError(t, s.EnterPlan(t.Context()))
		require.Equal(t, []int{0, 1}, taken())
		require.NoError(t, s.EnterCall(t.Context()), "it stays where it is")
		require.NoError(t, s.EnterPlan(t.Context()))
		require.Equal(t, []int{0, 1}, taken())

		began := time.Now()
		other := &Slot{Calls: calls, Plans: plans, Client: "two"}
		err := other.EnterPlan(t.Context())
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.Equal(t, time.Second, fault.As(err).RetryAfter)
		require.Equal(t, SlotWait, time.Since(began))
		other.Leave() // it has none

		s.Leave()
		s.Leave()
		require.Equal(t, []int{0, 0}, taken())
	})
}

func TestCallsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plans := NewQueue(1, 100, time.Now, ManyPlans)
		first := &limits.Claim{Client: "first"}
		require.NoError(t, plans.Enter(t.Context(), first, SlotWait, noPlanSlot))
		enter := func(client string, bytes int64) <-chan error {
			ended := make(chan error, 1)
			go func() {
				s := &Slot{Plans: plans, Client: client, Bytes: bytes}
				ended <- s.EnterPlan(t.Context())
				s.Leave()
			}()
			synctest.Wait()
			return ended
		}
		large := enter("large", maxWaitBytes)
		require.Empty(t, large, "it waits")
		small := enter("small", 1)
		require.ErrorContains(t, <-large, "already wait for plans")
		first.Leave()
		require.NoError(t, <-small)
	})
}
