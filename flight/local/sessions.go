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
	// maxSessions bounds the connections.
	maxSessions = 4096
	// claimTimeout is how long a session may exist before a stream names it.
	claimTimeout = 30 * time.Second
	// acceptPause is the time between two attempts to accept, if the process has too many open files.
	acceptPause = 100 * time.Millisecond
	// idBytes is the size of the random id of a session.
	idBytes = 16
)

// Sessions accepts the sessions of a server. It is safe for concurrent use.
type Sessions struct {
	lender *segment.Lender
	clock  func() time.Time
	log    *slog.Logger
	user   int // whose processes get sessions

	mu        sync.Mutex
	open      map[*Session]struct{}
	unclaimed map[string]*Session // by id
	closed    bool
}

// New returns Sessions that deliver segments of a lender. The clock is that of the system, for deadlines.
// Nothing starts before Serve.
func New(lender *segment.Lender, clock func() time.Time, log *slog.Logger) *Sessions {
	return &Sessions{
		lender: lender, clock: clock, log: log, user: os.Geteuid(),
		open: map[*Session]struct{}{}, unclaimed: map[string]*Session{},
	}
}

// Lend returns a segment for a batch of size bytes, or nil if there is no room. The caller releases it.
func (s *Sessions) Lend(size int) *segment.Loan { return s.lender.Lend(size) }

// SessionStats describes the sessions and their lender.
type SessionStats struct {
	Sessions int
	segment.LenderStats
}

// Stats returns what there is now.
func (s *Sessions) Stats() SessionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionStats{len(s.open), s.lender.Stats()}
}

// hello is the first packet of a session.
type hello struct {
	V       int    `json:"v"`
	Session string `json:"session"`
}

// Serve accepts sessions on a listener of Unix packets, until the listener is closed. It does not end with
// failures to accept.
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

// serve is the session of one connection, from its first packet to its end.
func (s *Sessions) serve(conn *net.UnixConn) {
	one, err := s.greet(conn)
	if err == nil {
		err = one.receive()
		one.Close()
	}
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, os.ErrDeadlineExceeded): // it left early, or no stream named it
		s.log.Debug("a session for batches in mapped memory ended", "error", err)
	default:
		s.log.Warn("a session for batches in mapped memory ended", "error", err)
	}
}

// greet makes a session, and sends its id. If it fails, the connection is closed.
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
	_, _ = rand.Read(random[:]) // it never fails
	id := hex.EncodeToString(random[:])
	one := s.add(conn, id)
	if one == nil {
		return refuse(fmt.Errorf("there are %d sessions already", maxSessions))
	}
	packet, err := json.Marshal(hello{V: 1, Session: id})
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

// Claim returns the session of an id for a stream, and for no other; nil if there is none.
func (s *Sessions) Claim(id string) *Session {
	s.mu.Lock()
	one := s.unclaimed[id]
	delete(s.unclaimed, id)
	s.mu.Unlock()
	if one == nil {
		return nil
	}
	if one.conn.SetDeadline(time.Time{}) != nil {
		return nil // it has ended
	}
	return one
}

// Close ends all sessions. No others begin.
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
