package local

import (
	"encoding/binary"
	"fmt"

	"github.com/penstock/penstock/internal/segment"
)

const (
	// ringSlots is the number of slots of a ring: maxUnseen blocks that the client's reader has not
	// seen, and as many that the client still uses.
	ringSlots = 2 * maxUnseen
	// slotUnit divides the size of a slot, so that slots begin at a page.
	slotUnit = 64 << 10
	// slack is the part of a slot that is left free for later blocks, whose sizes vary: a slot is
	// 1/slack larger than the first block.
	slack = 4
)

// The kinds of packets that a server sends to a client that has passed a tensor plan.
const (
	packetNewRing = 1 // a block in the ring that the packet passes
	packetBlock   = 2 // a block in the ring that was passed last
	packetMessage = 3 // the stream's next message is sent over the network
	packetPlan    = 4 // the tensor plan has been received
	packetRuns    = 5 // the answer to recordCheck
)

// ring is a segment that is divided into slots, each for one block. Its client can write to it. So a
// ring belongs to one session, and nothing that is read from it is ever used.
type ring struct {
	loan *segment.Loan
	slot int   // bytes of a slot
	free []int // the slots that the client does not have
	held int   // the slots that are not free
	sent bool  // it was passed to the client
	used bool  // for further blocks; if not, the ring ends when its client has returned all slots
}

// Slot is the room for one block in a session's ring. The caller passes it to either DeliverBlock or
// ReturnSlot.
type Slot struct {
	ring *ring
	at   int // the number of the slot
}

// Memory returns the slot's memory. Its content is undefined.
func (s Slot) Memory() []byte { return s.ring.loan.Memory()[s.at*s.ring.slot:][:s.ring.slot] }

// Block describes a delivered block for the client.
type Block struct {
	Bytes  int   // of the block, at the beginning of its slot
	Cursor int   // bytes of the cursor's text, which follows the block
	Rows   int   // of the step
	Step   int64 // of the cursor
}

// TakesBlocks reports whether the client has passed a tensor plan, so that it accepts blocks. It returns
// false for nil.
func (s *Session) TakesBlocks() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan != nil && !s.ended
}

// PlanSize returns the bytes of the tensor plan that the client has passed.
func (s *Session) PlanSize() (int64, error) {
	s.mu.Lock()
	plan := s.plan
	s.mu.Unlock()
	if plan == nil {
		return 0, errEnded
	}
	is, err := plan.Stat()
	if err != nil {
		return 0, err
	}
	return is.Size(), nil
}

// Plan returns the tensor plan that the client has passed. It returns an error if the plan has more
// than limit bytes or can change.
func (s *Session) Plan(limit int64) ([]byte, error) {
	s.mu.Lock()
	plan := s.plan
	s.mu.Unlock()
	if plan == nil {
		return nil, errEnded
	}
	return segment.ReadSealed(plan, limit)
}

// Slot returns room for size bytes in the session's ring. If the ring's slots are too small, lend
// lends the memory of another ring. ok is false if there is no room: the client has all slots, or
// lend returns nil.
func (s *Session) Slot(size int, lend func(size int) *segment.Loan) (_ Slot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return Slot{}, false
	}
	if s.ring == nil || s.ring.slot < size {
		slot := (size + size/slack + slotUnit - 1) / slotUnit * slotUnit
		loan := lend(ringSlots * slot)
		if loan == nil {
			return Slot{}, false
		}
		s.retireRing()
		s.ring = &ring{loan: loan, slot: slot, used: true}
		for i := range ringSlots {
			s.ring.free = append(s.ring.free, ringSlots-1-i)
		}
	}
	r := s.ring
	if len(r.free) == 0 {
		return Slot{}, false
	}
	at := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	r.held++
	return Slot{r, at}, true
}

// ReturnSlot returns a slot that was not delivered.
func (s *Session) ReturnSlot(of Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returnSlot(of)
}

// returnSlot makes a slot free. s.mu is held.
func (s *Session) returnSlot(of Slot) {
	r := of.ring
	r.free = append(r.free, of.at)
	if r.held--; r.held == 0 && !r.used {
		r.loan.Release()
	}
}

// retireRing ends the use of the current ring, if there is one. s.mu is held.
func (s *Session) retireRing() {
	r := s.ring
	s.ring = nil
	if r == nil {
		return
	}
	if r.used = false; r.held == 0 {
		r.loan.Release()
	}
}

// DeliverBlock passes a block in a slot to the client. The session has the slot until the client
// returns it. After an error, the session has ended.
func (s *Session) DeliverBlock(in Slot, b Block) error {
	s.mu.Lock()
	if s.ended {
		s.returnSlot(in)
		s.mu.Unlock()
		return errEnded
	}
	number := s.number(&delivery{slot: in})
	kind := uint32(packetBlock)
	if !in.ring.sent {
		kind, in.ring.sent = packetNewRing, true
	}
	s.mu.Unlock()
	packet := packetOf(kind, number, uint64(in.at*in.ring.slot), b) //nolint:gosec // not negative
	var err error
	if kind == packetNewRing {
		err = s.write(func() error { return in.ring.loan.Send(s.conn, packet) })
	} else {
		err = s.send(packet)
	}
	if err != nil {
		s.Close()
		return fmt.Errorf("deliver a block: %w", err)
	}
	return nil
}

// Announce notifies a client that accepts blocks that the stream's next message comes over the network.
// A session that has ended announces that by its end. Announce does nothing for nil.
func (s *Session) Announce() {
	if !s.TakesBlocks() {
		return
	}
	if s.send(packetOf(packetMessage, 0, 0, Block{})) != nil {
		s.Close()
	}
}

// send sends a packet without a file.
func (s *Session) send(packet []byte) error {
	return s.write(func() error {
		_, err := s.conn.Write(packet)
		return err
	})
}

// packetOf returns a packet, in the form that docs/spec/local.md defines.
func packetOf(kind, number uint32, offset uint64, b Block) []byte {
	p := make([]byte, 0, packetSize)
	p = binary.LittleEndian.AppendUint32(p, kind)
	p = binary.LittleEndian.AppendUint32(p, number)
	p = binary.LittleEndian.AppendUint64(p, offset)
	p = binary.LittleEndian.AppendUint64(p, uint64(b.Bytes))   //nolint:gosec // sizes are not negative
	p = binary.LittleEndian.AppendUint32(p, uint32(b.Cursor))  //nolint:gosec // a cursor is part of a message
	p = binary.LittleEndian.AppendUint32(p, uint32(b.Rows))    //nolint:gosec // rows of a batch fit
	return binary.LittleEndian.AppendUint64(p, uint64(b.Step)) //nolint:gosec // a step is not negative
}
