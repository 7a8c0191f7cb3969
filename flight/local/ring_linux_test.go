package local

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/local/localtest"
	"github.com/penstock/penstock/internal/segment"
	"github.com/penstock/penstock/internal/segment/segmenttest"
)

// ringOf is the size of the ring of a block of at most slotUnit/2 bytes.
const ringOf = ringSlots * slotUnit

// accepting returns a session whose client accepts blocks.
func (h *host) accepting(t *testing.T) (*client, *Session) {
	t.Helper()
	c := h.dial(t)
	require.NoError(t, c.SendPlan([]byte("a plan")))
	s := h.Claim(c.ID)
	require.NotNil(t, s)
	require.True(t, s.TakesBlocks())
	return c, s
}

// block delivers a block of size bytes that begins with a mark. It reports whether there was room.
func (h *host) block(t *testing.T, to *Session, mark byte, size int) bool {
	t.Helper()
	slot, ok := to.Slot(size, h.LendRing)
	if !ok {
		return false
	}
	require.GreaterOrEqual(t, len(slot.Memory()), size)
	slot.Memory()[0] = mark
	require.NoError(t, to.DeliverBlock(slot, Block{Bytes: size, Cursor: 2, Rows: 3, Step: int64(mark)}))
	return true
}

// next receives a block, and a ring if the test expects one.
func (c *client) next(newRing bool) (localtest.BlockPacket, *segmenttest.Received) {
	c.t.Helper()
	p, memory, err := c.ReceiveBlock(newRing)
	require.NoError(c.t, err)
	if memory != nil {
		c.t.Cleanup(func() { require.NoError(c.t, memory.Close()) })
	}
	return p, memory
}

// TestBlocksUseTheSlotsOfOneRing delivers more blocks than a ring has slots, to a client that returns some.
//
// spec: local-16, local-18, local-19
func TestBlocksUseTheSlotsOfOneRing(t *testing.T) {
	h := serve(t)
	c, s := h.accepting(t)
	plan, err := s.Plan(1 << 10)
	require.NoError(t, err)
	require.Equal(t, "a plan", string(plan))
	_, err = s.Plan(5)
	require.ErrorContains(t, err, "more than 5")
	offsets := map[uint64]bool{}
	var ring *segmenttest.Received
	for i := range ringSlots {
		require.True(t, h.block(t, s, byte(i), 1000))
		p, memory := c.next(i == 0)
		if i == 0 {
			ring = memory
			require.Len(t, ring.Memory(), ringOf)
			require.Equal(t, uint32(localtest.NewRing), p.Kind)
		} else {
			require.Equal(t, uint32(localtest.InRing), p.Kind)
		}
		require.Equal(t, localtest.BlockPacket{Kind: p.Kind, Number: uint32(i + 1), Offset: p.Offset, Bytes: 1000, Cursor: 2, Rows: 3, Step: uint64(i)}, p)
		require.Equal(t, byte(i), ring.Memory()[p.Offset])
		require.False(t, offsets[p.Offset], "two blocks share a slot")
		offsets[p.Offset] = true
	}
	require.False(t, h.block(t, s, 9, 1000), "the client has all slots")
	h.reaches(t, segment.LenderStats{Lent: ringOf})
	c.records([2]uint32{recordReturned, 3})
	require.Eventually(t, func() bool { return h.block(t, s, 9, 1000) }, patience, time.Millisecond)
	p, _ := c.next(false)
	require.Equal(t, byte(9), ring.Memory()[p.Offset])
	require.Equal(t, uint64(2), p.Offset/slotUnit, "the slot that was returned")
	require.NoError(t, c.Close())
	h.reaches(t, segment.LenderStats{})
}

// TestLargerBlocksGetAnotherRing delivers a block that exceeds the slots, while the client uses the first ring.
//
// spec: local-18
func TestLargerBlocksGetAnotherRing(t *testing.T) {
	h := serve(t)
	c, s := h.accepting(t)
	require.True(t, h.block(t, s, 1, 1000))
	_, first := c.next(true)
	require.True(t, h.block(t, s, 2, slotUnit+1))
	p, second := c.next(true)
	require.Equal(t, uint64(slotUnit+1), p.Bytes)
	require.Equal(t, byte(2), second.Memory()[p.Offset])
	require.Len(t, second.Memory(), 2*ringOf)
	h.reaches(t, segment.LenderStats{Lent: 3 * ringOf})
	require.Equal(t, byte(1), first.Memory()[0])
	c.records([2]uint32{recordReturned, 1})
	h.reaches(t, segment.LenderStats{Lent: 2 * ringOf})
}

// TestSlotsAreNotUsedAfterAFork checks that a child's blocks do not change.
//
// spec: local-11
func TestSlotsAreNotUsedAfterAFork(t *testing.T) {
	h := serve(t)
	c, s := h.accepting(t)
	require.True(t, h.block(t, s, 1, 1000))
	p, first := c.next(true)
	c.records([2]uint32{recordForked, 0}, [2]uint32{recordReturned, 1})
	h.reaches(t, segment.LenderStats{})
	require.True(t, h.block(t, s, 2, 1000))
	_, _ = c.next(true)
	require.Equal(t, byte(1), first.Memory()[p.Offset])
}

// TestSessionsWithoutRoomAnnounceMessages checks a lender without room, and what a client then receives.
//
// spec: local-20
func TestSessionsWithoutRoomAnnounceMessages(t *testing.T) {
	h := serve(t)
	c, s := h.accepting(t)
	_, ok := s.Slot(1, func(int) *segment.Loan { return nil })
	require.False(t, ok)
	s.Announce()
	p, _ := c.next(false)
	require.Equal(t, localtest.BlockPacket{Kind: localtest.Message}, p)
	slot, ok := s.Slot(1, h.LendRing)
	require.True(t, ok)
	s.ReturnSlot(slot)
	slot, ok = s.Slot(1, h.LendRing)
	require.True(t, ok)
	s.Close()
	require.ErrorIs(t, s.DeliverBlock(slot, Block{}), errEnded)
	h.reaches(t, segment.LenderStats{})
	s.Announce()
	_, err := s.Plan(1 << 10)
	require.Error(t, err)
}

// A client that gets no packets asks whether the server runs. The answers come before and between blocks.
//
// spec: local-24
func TestServersAnswerChecks(t *testing.T) {
	h := serve(t)
	c, s := h.accepting(t)
	for n, kind := range []uint32{packetNewRing, packetBlock} {
		c.records([2]uint32{recordCheck, 0}, [2]uint32{recordCheck, 0})
		for range 2 {
			p, _ := c.next(false)
			require.Equal(t, uint32(packetRuns), p.Kind)
		}
		slot, ok := s.Slot(1, h.LendRing)
		require.True(t, ok)
		require.NoError(t, s.DeliverBlock(slot, Block{Bytes: 1}))
		p, _ := c.next(n == 0)
		require.Equal(t, kind, p.Kind)
	}
	require.False(t, s.isEnded())
}

// TestInvalidPlansEndTheSession sends plans that are missing, repeated, late, or can change.
//
// spec: local-13
func TestInvalidPlansEndTheSession(t *testing.T) {
	h := serve(t)
	for name, harm := range map[string]func(c *client, s *Session){
		"without a file": func(c *client, _ *Session) { c.records([2]uint32{recordPlan, 0}) },
		"twice":          func(c *client, _ *Session) { _ = c.SendPlan(nil); _ = c.SendPlan(nil) },
		"after a delivery": func(c *client, s *Session) {
			h.deliver(c.t, s, 1)
			_ = c.SendPlan(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := h.dial(t)
			s := h.Claim(c.ID)
			harm(c, s)
			ended(t, s)
		})
	}
	one, other := segmenttest.Pair(t)
	loan := h.LendRing(1 << 12)
	require.NoError(t, loan.Send(one, []byte{1}))
	_, files, err := segment.Receive(other, make([]byte, 8))
	require.NoError(t, err)
	require.Len(t, files, 1)
	_, err = segment.ReadSealed(files[0], 1<<20)
	require.ErrorContains(t, err, "may change")
	require.NoError(t, files[0].Close())
	loan.Release()
}
