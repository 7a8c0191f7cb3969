package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/segment"
)

const (
	// maxUnseen is how many deliveries may wait for a client's reader to see them. Flow control of
	// gRPC usually bounds the batches that a client has not read. It does not bound deliveries,
	// because their gRPC messages are small.
	maxUnseen = 4
	// maxDeliveries is how many deliveries a client may have that it has not returned. Each
	// delivery is an open file in the client's process.
	maxDeliveries = 128
	// sendTimeout limits the time to send a segment. A socket's buffer has room for maxUnseen
	// deliveries, so sending takes longer only on a broken connection.
	sendTimeout = time.Second
)

// Clients report the states of deliveries in records. A record consists of a kind and the number of
// a delivery, both as 32-bit little-endian integers. A packet has one or more records.
const (
	recordSize = 8
	maxPacket  = 512 * recordSize
	packetSize = 40 // bytes of a packet to a client that accepts blocks
)

// The kinds of records.
const (
	recordSeen     = 1 // the client's reader has received the message that names the delivery
	recordReturned = 2 // the client no longer uses the segment
	recordForked   = 3 // another process may use the segments of all deliveries so far; the number is 0
	recordPlan     = 4 // the packet passes the file of a tensor plan, and the client accepts blocks; the number is 0
	recordCheck    = 5 // the client asks whether this process runs; the number is 0
)

// errEnded is the error of a delivery to a session that has ended.
var errEnded = errors.New("the session has ended")

// Session is the connection of a client for the batches of one stream. It is safe for concurrent use.
type Session struct {
	conn  *net.UnixConn
	clock func() time.Time
	end   func() // removes the session from the Sessions that accepted it

	mu         sync.Mutex
	deliveries map[uint32]*delivery // deliveries that the client has not returned, by number
	last       uint32               // the number of the last delivery
	unseen     int
	ended      bool
	changed    chan struct{} // closed and replaced when unseen falls or the session ends
	seen       func()        // called when unseen falls; may be nil
	plan       *os.File      // of the tensor plan that the client has passed; nil: it does not accept blocks
	ring       *ring         // of the next blocks; nil before the first one
}

// delivery is memory that a client has: a segment, or a slot of a ring.
type delivery struct {
	loan *segment.Loan // nil for a slot
	slot Slot
	seen bool
}

func newSession(conn *net.UnixConn, clock func() time.Time) *Session {
	return &Session{conn: conn, clock: clock, deliveries: map[uint32]*delivery{}, changed: make(chan struct{})}
}

// Takes reports whether the session can take another delivery. It cannot if it has ended, or if its
// client has maxDeliveries deliveries that it has not returned.
func (s *Session) Takes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && len(s.deliveries) < maxDeliveries
}

// OnSeen sets the function that the session calls each time the client's reader has seen another
// delivery. OnSeen is called before the first delivery.
func (s *Session) OnSeen(seen func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = seen
}

// Wait waits until fewer than maxUnseen deliveries are unseen, so that there can be another
// delivery, or until the session has ended.
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

// Deliver passes a segment to the client, and returns the number of the delivery. The session holds
// a reference to the loan until the client returns the segment. After an error, the session has
// ended.
func (s *Session) Deliver(loan *segment.Loan) (number uint32, err error) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return 0, errEnded
	}
	loan.Retain()
	number = s.number(&delivery{loan: loan})
	s.mu.Unlock()
	err = s.write(func() error { return loan.Send(s.conn, binary.LittleEndian.AppendUint32(nil, number)) })
	if err != nil {
		s.Close()
	}
	return number, err
}

// number adds a delivery, and returns its number. s.mu is held.
func (s *Session) number(d *delivery) uint32 {
	s.last++
	s.deliveries[s.last] = d
	s.unseen++
	return s.last
}

// write calls send, which writes to the connection, with a deadline.
func (s *Session) write(send func() error) error {
	if err := s.conn.SetWriteDeadline(s.clock().Add(sendTimeout)); err != nil {
		return err
	}
	return send()
}

// receive handles records until the connection ends or a record is invalid.
func (s *Session) receive() error {
	packet := make([]byte, maxPacket+1)
	for {
		n, files, err := segment.Receive(s.conn, packet)
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err == nil && (n%recordSize != 0 || n > maxPacket) {
			err = fmt.Errorf("a packet has %d bytes", n)
		}
		if err == nil {
			err = s.records(packet[:n], &files)
		}
		for _, f := range files {
			_ = f.Close() // nothing was written to it
		}
		if err != nil {
			return err
		}
	}
}

// records handles the records of a packet, which came with files. It removes the files that it keeps.
func (s *Session) records(packet []byte, files *[]*os.File) error {
	for at := 0; at < len(packet); at += recordSize {
		kind, number := binary.LittleEndian.Uint32(packet[at:]), binary.LittleEndian.Uint32(packet[at+4:])
		var err error
		switch kind {
		case recordPlan:
			err = s.planned(files)
		case recordCheck:
			err = s.check()
		default:
			err = s.record(kind, number)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// planned handles a tensor plan, and confirms it.
func (s *Session) planned(files *[]*os.File) error {
	if len(*files) != 1 {
		return fmt.Errorf("a tensor plan came with %d files", len(*files))
	}
	if err := s.keepPlan((*files)[0]); err != nil {
		return err
	}
	*files = nil
	return s.send(packetOf(packetPlan, 0, 0, Block{}))
}

// check answers a client that asks whether this process runs.
func (s *Session) check() error {
	if !s.TakesBlocks() {
		return errors.New("a client that does not accept blocks asked for a packet of them")
	}
	return s.send(packetOf(packetRuns, 0, 0, Block{}))
}

func (s *Session) keepPlan(file *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return net.ErrClosed
	case s.plan != nil || s.last > 0:
		return errors.New("a tensor plan came twice, or after a delivery")
	}
	s.plan = file
	return nil
}

// record handles one record. If Close was called after the record was read, record returns
// net.ErrClosed: the session no longer knows its deliveries, and the record is not a fault of the
// client.
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
			if d.loan != nil {
				d.loan.Discard()
			}
		}
		s.retireRing() // its slots are not used again
		return nil
	case recordSeen:
		if number == 0 || number > s.last {
			return fmt.Errorf("delivery %d was seen of %d", number, s.last)
		}
		if d != nil { // otherwise the delivery was returned: two threads of the client may send their records in either order
			s.markSeen(d)
		}
		return nil
	case recordReturned:
		if d == nil {
			return fmt.Errorf("delivery %d was returned, which the client does not have", number)
		}
		s.markSeen(d)
		delete(s.deliveries, number)
		s.giveBack(d)
		return nil
	default:
		return fmt.Errorf("a record has the unknown kind %d", kind)
	}
}

// giveBack ends a delivery. s.mu is held.
func (s *Session) giveBack(d *delivery) {
	if d.loan == nil {
		s.returnSlot(d.slot)
		return
	}
	d.loan.Release()
}

// markSeen records that the client's reader has seen a delivery. s.mu is held.
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

// Close ends the session. The session's segments are not reused, because the client, and processes
// that it forked, may still use them. Close may be called more than once.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	s.retireRing()
	for number, d := range s.deliveries {
		if d.loan != nil {
			d.loan.Discard()
		}
		s.giveBack(d)
		delete(s.deliveries, number)
	}
	if s.plan != nil {
		_ = s.plan.Close() // nothing was written to it
	}
	close(s.changed)
	_ = s.conn.Close() // an error does not matter: the connection is no longer used
	s.end()
}
