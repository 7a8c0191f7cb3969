package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/flight/local/localtest"
	"github.com/penstock/penstock/internal/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds how long a test waits for what must happen.
const patience = 10 * time.Second

// host is a server's sessions, on a socket.
type host struct {
	*Sessions
	lender *segment.Lender
	path   string
}

func serve(t *testing.T) *host { return serveAs(t, os.Geteuid()) }

// serveAs serves the processes of a user.
func serveAs(t *testing.T, user int) *host {
	t.Helper()
	h := &host{lender: segment.NewLender(nil, 1<<30)}
	h.Sessions = New(h.lender, time.Now, slog.New(slog.DiscardHandler))
	h.user = user
	t.Cleanup(func() {
		h.Close()
		require.Eventually(t, func() bool { return h.Stats().Sessions == 0 && h.Stats().Lent == 0 }, patience, time.Millisecond)
		h.lender.Close()
	})
	h.path = localtest.Serve(t, h.Serve)
	return h
}

// client is a session's other end, whose failures end the test.
type client struct {
	*localtest.SessionClient
	t *testing.T
}

func (h *host) dial(t *testing.T) *client {
	t.Helper()
	c, err := localtest.Open(h.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.Len(t, c.ID, 2*idBytes)
	return &client{c, t}
}

// records sends records in one packet.
func (c *client) records(all ...[2]uint32) {
	c.t.Helper()
	require.NoError(c.t, c.Report(all...))
}

// receive returns the next delivery's number and memory.
func (c *client) receive() (number uint32, memory []byte) {
	c.t.Helper()
	number, got, err := c.Receive()
	require.NoError(c.t, err)
	c.t.Cleanup(func() { require.NoError(c.t, got.Close()) })
	return number, got.Memory()
}

// deliver lends a segment that begins with a mark, and delivers it.
func (h *host) deliver(t *testing.T, to *Session, mark byte) uint32 {
	t.Helper()
	loan := h.Lend(1)
	require.NotNil(t, loan)
	defer loan.Release()
	loan.Memory()[0] = mark
	number, err := to.Deliver(loan)
	require.NoError(t, err)
	return number
}

// reaches waits until the lender has what a test expects.
func (h *host) reaches(t *testing.T, want segment.LenderStats) {
	t.Helper()
	require.Eventually(t, func() bool { return h.lender.Stats() == want }, patience, time.Millisecond, "%+v is %+v", want, h.lender.Stats())
}

const smallest = 64 << 10 // bytes of a segment

func (s *Session) isEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func ended(t *testing.T, s *Session) {
	t.Helper()
	require.Eventually(t, s.isEnded, patience, time.Millisecond)
}

// spec: local-2, local-10
//
// A segment is delivered, and free once all sessions have returned it.
func TestSegmentsAreFreeWhenAllSessionsReturnedThem(t *testing.T) {
	h := serve(t)
	one, two := h.dial(t), h.dial(t)
	first, second := h.Claim(one.ID), h.Claim(two.ID)
	loan := h.Lend(1)
	loan.Memory()[0] = 7
	for _, to := range []*Session{first, second} {
		number, err := to.Deliver(loan)
		require.NoError(t, err)
		require.Equal(t, uint32(1), number)
	}
	loan.Release()
	for _, c := range []*client{one, two} {
		number, memory := c.receive()
		require.Equal(t, uint32(1), number)
		require.Equal(t, byte(7), memory[0])
		require.Equal(t, segment.LenderStats{Lent: smallest}, h.lender.Stats())
		c.records([2]uint32{recordReturned, 1})
	}
	h.reaches(t, segment.LenderStats{Free: smallest})
	require.Equal(t, 2, h.Stats().Sessions)
}

// TestRecordsAfterTheEndAreNoFault checks records that were read before a session ended and are handled after it: they end
// the session as a closed one, and do not blame the client.
func TestRecordsAfterTheEndAreNoFault(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	s := h.Claim(c.ID)
	for mark := range byte(2) {
		h.deliver(t, s, mark)
	}
	s.Close()
	for _, kind := range []uint32{recordSeen, recordReturned, recordForked} {
		require.ErrorIs(t, s.record(kind, 1), net.ErrClosed, kind)
	}
	require.Equal(t, uint32(2), s.last)
	h.reaches(t, segment.LenderStats{})
}

// The id of a session is good for one stream.
func TestSessionsAreClaimedOnce(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	require.Nil(t, h.Claim(""))
	require.Nil(t, h.Claim(c.ID+"0"))
	s := h.Claim(c.ID)
	require.NotNil(t, s)
	require.Nil(t, h.Claim(c.ID))
	gone := h.dial(t)
	require.NoError(t, gone.Close())
	require.Eventually(t, func() bool { return h.Stats().Sessions == 1 }, patience, time.Millisecond)
	require.Nil(t, h.Claim(gone.ID))
}

// After maxUnseen deliveries, Wait waits until the reader has seen one, or returned it.
func TestClientsThatDoNotReadGetNoMore(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	moved := make(chan struct{}, 10)
	s := h.Claim(c.ID)
	s.OnSeen(func() { moved <- struct{}{} })
	for i := range maxUnseen {
		require.NoError(t, s.Wait(t.Context()))
		require.Equal(t, uint32(i+1), h.deliver(t, s, 0))
	}
	full := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Wait(ctx), context.DeadlineExceeded)
	}
	full()
	for _, kind := range []uint32{recordSeen, recordReturned} {
		c.records([2]uint32{kind, kind}) // delivery 1 is seen, 2 returned
		select {
		case <-moved:
		case <-time.After(patience):
			t.Fatal("progress was not noted")
		}
		require.NoError(t, s.Wait(t.Context()))
		h.deliver(t, s, 0)
		full()
	}
	c.records([2]uint32{recordReturned, 1}, [2]uint32{recordSeen, 1}, [2]uint32{recordSeen, 2}) // counted already
	require.Eventually(t, func() bool { return h.lender.Stats().Lent == maxUnseen*smallest }, patience, time.Millisecond)
	full()
	require.Empty(t, moved)
	require.NoError(t, c.Close())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, s.Wait(ctx), "the session has ended")
	loan := h.Lend(1)
	defer loan.Release()
	_, err := s.Deliver(loan)
	require.ErrorIs(t, err, errEnded)
}

// A client that keeps maxDeliveries gets no more until it returns one.
//
// spec: local-8
func TestClientsKeepABoundedNumber(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	s := h.Claim(c.ID)
	for range maxDeliveries {
		require.True(t, s.Takes())
		number := h.deliver(t, s, 0)
		c.receive()
		c.records([2]uint32{recordSeen, number})
	}
	require.False(t, s.Takes())
	c.records([2]uint32{recordReturned, 1})
	require.Eventually(t, s.Takes, patience, time.Millisecond)
	require.NoError(t, c.Close())
	ended(t, s)
	require.False(t, s.Takes())
}

// What a session had when it ended, or when its client forked, is never written to again: another
// process may read it.
//
// spec: local-11
func TestMemoryThatOthersMayReadIsNotReused(t *testing.T) {
	for name, leave := range map[string]func(c *client, s *Session){
		"the client ends":   func(c *client, _ *Session) { require.NoError(t, c.Close()) },
		"the session ends":  func(_ *client, s *Session) { s.Close() },
		"the client forks":  func(c *client, _ *Session) { c.records([2]uint32{recordForked, 0}, [2]uint32{recordReturned, 1}) },
		"an invalid record": func(c *client, _ *Session) { c.records([2]uint32{9, 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t)
			c := h.dial(t)
			s := h.Claim(c.ID)
			h.deliver(t, s, 7)
			_, memory := c.receive()
			leave(c, s)
			h.reaches(t, segment.LenderStats{})
			next := h.Lend(1)
			clear(next.Memory())
			require.Equal(t, byte(7), memory[0])
			next.Release()
		})
	}
}

// After a fork, only what was delivered before it is lost.
func TestForksLoseOnlyEarlierDeliveries(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	s := h.Claim(c.ID)
	h.deliver(t, s, 0)
	c.records([2]uint32{recordForked, 0}, [2]uint32{recordSeen, 1})
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.unseen == 0 }, patience, time.Millisecond)
	h.deliver(t, s, 0)
	c.records([2]uint32{recordReturned, 1}, [2]uint32{recordReturned, 2})
	h.reaches(t, segment.LenderStats{Free: smallest})
}

// A client that does not follow the protocol loses its session. Others keep theirs.
//
// spec: local-13
func TestInvalidRecordsEndTheirSession(t *testing.T) {
	h := serve(t)
	other := h.dial(t)
	kept := h.Claim(other.ID)
	h.deliver(t, kept, 5)
	_, memory := other.receive()
	for name, packet := range map[string][]byte{
		"too many records":        bytes.Repeat([]byte{recordSeen, 0, 0, 0, 1, 0, 0, 0}, maxPacket/recordSize+1),
		"a part of a record":      {1, 0, 0, 0, 1},
		"an unknown kind":         binary.LittleEndian.AppendUint64(nil, 1<<32),
		"a check without blocks":  binary.LittleEndian.AppendUint64(nil, recordCheck),
		"seen, not delivered":     binary.LittleEndian.AppendUint64(nil, 2<<32|recordSeen),
		"seen, number 0":          binary.LittleEndian.AppendUint64(nil, recordSeen),
		"returned twice":          binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 1<<32|recordReturned), 1<<32|recordReturned),
		"returned, not delivered": binary.LittleEndian.AppendUint64(nil, 2<<32|recordReturned),
	} {
		c := h.dial(t)
		s := h.Claim(c.ID)
		h.deliver(t, s, 9)
		_, err := c.Write(packet)
		require.NoError(t, err, name)
		ended(t, s)
	}
	flood := h.dial(t)
	for range 10_000 {
		if _, err := flood.Write(binary.LittleEndian.AppendUint64(nil, 7<<32|recordReturned)); err != nil {
			break
		}
	}
	require.False(t, kept.isEnded())
	require.Equal(t, byte(5), memory[0])
	h.deliver(t, kept, 6)
	_, memory = other.receive()
	require.Equal(t, byte(6), memory[0])
}

// A client that never reads its socket cannot hold a delivery up: the send fails.
func TestDeliveriesDoNotWaitForClients(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	s := h.Claim(c.ID)
	loan := h.Lend(1)
	defer loan.Release()
	began := time.Now()
	for {
		if _, err := s.Deliver(loan); err != nil {
			break
		}
	}
	require.Less(t, time.Since(began), patience)
	require.True(t, s.isEnded())
}

// refused connects, and is disconnected before the first packet.
func (h *host) refused(t *testing.T) {
	t.Helper()
	conn, err := localtest.Dial(h.path)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, conn.Close())
	require.Zero(t, h.Stats().Sessions)
}

// Processes of another user than the server's are disconnected.
//
// spec: local-2
func TestOtherUsersGetNoSession(t *testing.T) {
	serveAs(t, os.Geteuid()+1).refused(t)
}

// Connections beyond the bound are closed without a word.
func TestSessionsAreBounded(t *testing.T) {
	h := serve(t)
	h.mu.Lock()
	for range maxSessions {
		h.open[&Session{ended: true}] = struct{}{}
	}
	h.mu.Unlock()
	conn, err := localtest.Dial(h.path)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, conn.Close())
	h.mu.Lock()
	clear(h.open)
	h.mu.Unlock()
	h.dial(t)
}
