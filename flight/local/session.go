package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/segment"
)

const (
	// maxUnseen is how many deliveries a client may have that its reader has not seen. With gRPC, flow
	// control bounds what a client has not read, but here its messages are small.
	maxUnseen = 4
	// maxDeliveries is how many deliveries a client may have. Each costs it an open file.
	maxDeliveries = 128
	// sendTimeout bounds the sending of a segment. There is room for maxUnseen in a socket, so that only
	// a connection that is broken takes longer.
	sendTimeout = time.Second
)

// A record is what a client reports: a kind and the number of a delivery, both as 32-bit little-endian
// integers. A packet has one record or several.
const (
	recordSize = 8
	maxPacket  = 512 * recordSize
)

// The kinds of records.
const (
	recordSeen     = 1 // the reader has the message that names the delivery
	recordReturned = 2 // the client no longer uses the segment
	recordForked   = 3 // another process may use the segments of all deliveries so far; the number is 0
)

// errEnded is the error of a delivery to a session that has ended.
var errEnded = errors.New("the session has ended")

// Session is the connection of a client for the batches of one stream. It is safe for concurrent use.
type Session struct {
	conn  *net.UnixConn
	clock func() time.Time
	end   func() // removes it from its Sessions

	mu         sync.Mutex
	deliveries map[uint32]*delivery // that were not returned, by number
	last       uint32               // the number of the last delivery
	unseen     int
	ended      bool
	changed    chan struct{} // closed and replaced when unseen falls or the session ends
	seen       func()        // called when unseen falls; may be nil
}

// delivery is a segment that a client has.
type delivery struct {
	loan *segment.Loan
	seen bool
}

func newSession(conn *net.UnixConn, clock func() time.Time) *Session {
	return &Session{conn: conn, clock: clock, deliveries: map[uint32]*delivery{}, changed: make(chan struct{})}
}

// Takes reports whether the session takes another delivery: it has not ended, and its client does not
// keep too many.
func (s *Session) Takes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && len(s.deliveries) < maxDeliveries
}

// OnSeen has seen called each time that the client's reader has seen another delivery. It is called before
// the first one.
func (s *Session) OnSeen(seen func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = seen
}

// Wait waits until the client has seen enough deliveries for another one, or the session has ended.
func (s *Session) Wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		ready, changed := s.ended || s.unseen < maxUnseen, s.changed
		s.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Deliver passes a segment to the client, and returns the number of the delivery. The session is
// another holder of the loan, until the client returns the segment. After an error, the session has
// ended.
func (s *Session) Deliver(loan *segment.Loan) (number uint32, err error) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return 0, errEnded
	}
	loan.Retain()
	s.last++
	number = s.last
	s.deliveries[number] = &delivery{loan: loan}
	s.unseen++
	s.mu.Unlock()
	err = s.conn.SetWriteDeadline(s.clock().Add(sendTimeout))
	if err == nil {
		err = loan.Send(s.conn, binary.LittleEndian.AppendUint32(nil, number))
	}
	if err != nil {
		s.Close()
	}
	return number, err
}

// receive handles records until the connection ends or a record is invalid.
func (s *Session) receive() error {
	packet := make([]byte, maxPacket+1)
	for {
		n, err := s.conn.Read(packet)
		if err != nil {
			return err
		}
		if n%recordSize != 0 || n > maxPacket {
			return fmt.Errorf("a packet has %d bytes", n)
		}
		for at := 0; at < n; at += recordSize {
			kind, number := binary.LittleEndian.Uint32(packet[at:]), binary.LittleEndian.Uint32(packet[at+4:])
			if err := s.record(kind, number); err != nil {
				return err
			}
		}
	}
}

// record handles one record. A packet that was read before Close, and is handled after it, is no fault of the client: its
// deliveries are gone.
func (s *Session) record(kind, number uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return net.ErrClosed
	}
	d := s.deliveries[number]
	switch kind {
	case recordForked:
		for _, d := range s.deliveries {
			d.loan.Discard()
		}
		return nil
	case recordSeen:
		if number == 0 || number > s.last {
			return fmt.Errorf("delivery %d was seen of %d", number, s.last)
		}
		if d != nil { // else it was returned: records of two threads may be swapped
			s.markSeen(d)
		}
		return nil
	case recordReturned:
		if d == nil {
			return fmt.Errorf("delivery %d was returned, which the client does not have", number)
		}
		s.markSeen(d)
		delete(s.deliveries, number)
		d.loan.Release()
		return nil
	default:
		return fmt.Errorf("a record has the unknown kind %d", kind)
	}
}

// markSeen notes that the client's reader has a delivery. s.mu is held.
func (s *Session) markSeen(d *delivery) {
	if d.seen {
		return
	}
	d.seen = true
	s.unseen--
	if s.seen != nil {
		s.seen()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Close ends the session. The client, and processes that it forked, may still use its segments: they
// are not reused. It may be called more than once.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	for number, d := range s.deliveries {
		d.loan.Discard()
		d.loan.Release()
		delete(s.deliveries, number)
	}
	close(s.changed)
	_ = s.conn.Close() // it is not used any more
	s.end()
}
