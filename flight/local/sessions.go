package local

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/segment"
)

const (
	// maxSessions is the maximum number of open sessions of a server.
	maxSessions = 4096
	// claimTimeout is how long a session may wait for a stream that names it.
	claimTimeout = 30 * time.Second
	// acceptPause is the time until the next attempt after a connection could not be accepted, for
	// example because the process has too many open files.
	acceptPause = 100 * time.Millisecond
	// idBytes is the size of the random id of a session.
	idBytes = 16
)

// Sessions accepts and holds the sessions of a server. It is safe for concurrent use.
type Sessions struct {
	lender *segment.Lender
	clock  func() time.Time
	log    *slog.Logger
	user   int // the user whose processes get sessions

	mu        sync.Mutex
	open      map[*Session]struct{}
	unclaimed map[string]*Session // sessions that no stream has named yet, by id
	closed    bool
}

// New returns Sessions that deliver the segments of a lender. The clock must be the system's clock,
// because it sets the deadlines of connections. Nothing starts before Serve.
func New(lender *segment.Lender, clock func() time.Time, log *slog.Logger) *Sessions {
	return &Sessions{
		lender: lender, clock: clock, log: log, user: os.Geteuid(),
		open: map[*Session]struct{}{}, unclaimed: map[string]*Session{},
	}
}

// Lend returns a segment for a batch of size bytes, or nil if the lender has no room. The caller
// releases the segment.
func (s *Sessions) Lend(size int) *segment.Loan { return s.lender.Lend(size) }

// LendRing returns memory of size bytes for the ring of a session, or nil if the lender has no room.
func (s *Sessions) LendRing(size int) *segment.Loan { return s.lender.LendWritable(size) }

// SessionStats describes the sessions and their lender.
type SessionStats struct {
	Sessions int
	segment.LenderStats
}

// Stats returns the current number of sessions and the statistics of their lender.
func (s *Sessions) Stats() SessionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionStats{len(s.open), s.lender.Stats()}
}

// hello is the first packet of a session.
type hello struct {
	V       int    `json:"v"`
	Session string `json:"session"`
	Blocks  int    `json:"blocks"` // the version of the blocks that the server makes
}

// Serve accepts sessions on a listener of Unix packets, until the listener is closed. If a
// connection cannot be accepted, Serve logs the failure and tries again.
func (s *Sessions) Serve(on net.Listener) error {
	for {
		conn, err := on.Accept()
		switch packets, ok := conn.(*net.UnixConn); {
		case err == nil && ok:
			go s.serve(packets)
		case err == nil:
			return errors.Join(fault.New(fault.Internal, "serve sessions on %s: a connection of type %T", on.Addr(), conn), conn.Close())
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			s.log.Warn("a session for batches in mapped memory was not accepted", "error", err)
			time.Sleep(acceptPause)
		}
	}
}

// serve handles the session of one connection, from its first packet to its end.
func (s *Sessions) serve(conn *net.UnixConn) {
	one, err := s.greet(conn)
	if err == nil {
		err = one.receive()
		one.Close()
	}
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, os.ErrDeadlineExceeded): // the client left early, or no stream named the session in time
		s.log.Debug("a session for batches in mapped memory ended", "error", err)
	default:
		s.log.Warn("a session for batches in mapped memory ended", "error", err)
	}
}

// greet creates a session for a connection, and sends the session's id to the client. If greet
// fails, it closes the connection.
func (s *Sessions) greet(conn *net.UnixConn) (*Session, error) {
	refuse := func(err error) (*Session, error) { return nil, errors.Join(err, conn.Close()) }
	user, err := peerUser(conn)
	if err != nil {
		return refuse(err)
	}
	if user != s.user {
		return refuse(fmt.Errorf("its client is of user %d, the server of %d", user, s.user))
	}
	var random [idBytes]byte
	_, _ = rand.Read(random[:]) // rand.Read never fails
	id := hex.EncodeToString(random[:])
	one := s.add(conn, id)
	if one == nil {
		return refuse(fmt.Errorf("there are %d sessions already", maxSessions))
	}
	packet, err := json.Marshal(hello{V: 1, Session: id, Blocks: 1})
	if err == nil {
		err = conn.SetDeadline(s.clock().Add(claimTimeout))
	}
	if err == nil {
		_, err = conn.Write(packet)
	}
	if err != nil {
		one.Close()
	}
	return one, err
}

// add adds a session, or returns nil if there are too many.
func (s *Sessions) add(conn *net.UnixConn, id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= maxSessions {
		return nil
	}
	one := newSession(conn, s.clock)
	one.end = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, one)
		delete(s.unclaimed, id)
	}
	s.open[one] = struct{}{}
	s.unclaimed[id] = one
	return one
}

// Claim returns the session with an id for the stream that names it. A session is claimed once:
// Claim returns nil if there is no session with this id, or if another stream has claimed it.
func (s *Sessions) Claim(id string) *Session {
	s.mu.Lock()
	one := s.unclaimed[id]
	delete(s.unclaimed, id)
	s.mu.Unlock()
	if one == nil {
		return nil
	}
	if one.conn.SetDeadline(time.Time{}) != nil {
		return nil // the session has ended
	}
	return one
}

// Close ends all sessions. After Close, no session begins.
func (s *Sessions) Close() {
	s.mu.Lock()
	s.closed = true
	open := make([]*Session, 0, len(s.open))
	for one := range s.open {
		open = append(open, one)
	}
	s.mu.Unlock()
	for _, one := range open {
		one.Close()
	}
}
