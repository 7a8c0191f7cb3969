// Package errstore is a store with faults: it decorates another store, counts
// what is asked of it and makes chosen calls fail, wait or lie.
//
// It serves tests. What it does depends on the order of calls alone, never on
// chance or time.
package errstore

import (
	"context"
	"strings"
	"sync"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Call is a kind of call to a store.
type Call int

// The kinds of call.
const (
	Read Call = iota // Object.ReadAt
	Open             // Store.Open
)

// Rule says which calls misbehave and how.
type Rule struct {
	Location string // what the location must contain; "" is every location
	Call     Call
	Nth      int // the rule's nth matching call, from 1; 0 is every one
	Action   Action
}

// Request is one read that a store was asked for.
type Request struct {
	Location string
	Offset   int64
	Bytes    int
}

// Counts are sums over calls.
type Counts struct {
	Opens int   // calls of Open
	Open  int   // objects that are open now
	Reads int   // calls of ReadAt
	Bytes int64 // asked for by them
}

// Store decorates a store. Use New. It is safe for concurrent use.
type Store struct {
	inner store.Store

	mu       sync.Mutex
	rules    []rule
	counts   Counts
	requests []Request
}

type rule struct {
	Rule
	seen int
}

// New decorates a store with rules; with none it only counts. The first rule
// that acts on a call decides it, and the rules after it do not see the call.
func New(inner store.Store, rules ...Rule) *Store {
	s := &Store{inner: inner}
	s.Set(rules...)
	return s
}

// Set replaces the rules, for the calls after it.
func (s *Store) Set(rules ...Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = s.rules[:0:0]
	for _, r := range rules {
		s.rules = append(s.rules, rule{Rule: r})
	}
}

// Counts returns the sums since New or Reset.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Requests returns the reads since New or Reset, in the order they began.
func (s *Store) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Reset sets the sums to zero, save for the objects that are open, and forgets
// the requests.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts, s.requests = Counts{Open: s.counts.Open}, nil
}

// Open implements store.Store.
func (s *Store) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	act := s.begin(Open, location, func() { s.counts.Opens++ })
	if err := act.before(ctx, location); err != nil {
		return nil, err
	}
	if act.kind == truncate {
		size = store.SizeUnknown
	}
	inner, err := s.inner.Open(act.under(ctx), location, size)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Open++
	o := &object{Object: inner, store: s, size: inner.Size()}
	if act.kind == truncate {
		o.size = min(o.size, act.offset)
	}
	return o, nil
}

// begin counts a call and finds what is to be done to it.
func (s *Store) begin(call Call, location string, count func()) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	count()
	for i := range s.rules {
		r := &s.rules[i]
		if r.Call != call || !strings.Contains(location, r.Location) {
			continue
		}
		r.seen++
		if r.Nth == 0 || r.Nth == r.seen {
			return r.Action
		}
	}
	return Action{}
}

type object struct {
	store.Object
	store *Store
	size  int64
}

func (o *object) Size() int64 { return o.size }

func (o *object) ReadAt(ctx context.Context, p []byte, off int64) error {
	location := o.Location()
	act := o.store.begin(Read, location, func() {
		o.store.counts.Reads++
		o.store.counts.Bytes += int64(len(p))
		o.store.requests = append(o.store.requests, Request{Location: location, Offset: off, Bytes: len(p)})
	})
	if err := act.before(ctx, location); err != nil {
		return err
	}
	if err := store.CheckRange(o, len(p), off); err != nil {
		return err
	}
	if act.kind == truncate && off+int64(len(p)) > act.offset {
		return fault.New(fault.Corrupt, "file %s ends at byte %d", location, act.offset).In("", location)
	}
	if err := o.Object.ReadAt(act.under(ctx), p, off); err != nil {
		return err
	}
	if at := act.offset - off; act.kind == flip && at >= 0 && at < int64(len(p)) {
		p[at] ^= act.mask
	}
	return nil
}

func (o *object) Close() error {
	o.store.mu.Lock()
	o.store.counts.Open--
	o.store.mu.Unlock()
	return o.Object.Close()
}
