// Package errstore injects faults into a store for tests: it decorates another store,
// counts calls, and makes chosen calls fail, wait or return wrong bytes.
//
// Which calls get faults depends only on the order of the calls, never on chance or time.
package errstore

import (
	"context"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Call is a kind of call to a store.
type Call int

// The kinds of call.
const (
	Read     Call = iota // Object.ReadAt
	Open                 // Store.Open
	Create               // Writer.Create
	Remove               // Writer.Remove
	Begin                // Uploader.Begin
	Write                // Upload.Write
	Finish               // Upload.Finish
	Abort                // Upload.Abort
	ListPage             // FolderListing.Next
	Discard              // FolderLister.Discard
	calls
)

// Changes returns the calls that may change storage.
func Changes() []Call { return []Call{Create, Remove, Begin, Write, Finish, Abort, Discard} }

// String names a call.
func (c Call) String() string {
	return [calls]string{"read", "open", "create", "remove", "begin", "write", "finish", "abort", "list", "discard"}[c]
}

// Rule changes some calls.
type Rule struct {
	Location string // matches locations that contain it; "" matches every location
	Call     Call
	Nth      int // the number, from 1, of the matching call that is changed; 0 changes every matching call
	Action   Action
}

// Request is one read.
type Request struct {
	Location string
	Offset   int64
	Bytes    int
}

// Counts sums up calls.
type Counts struct {
	Opens int   // calls of Open
	Open  int   // open objects
	Reads int   // calls of ReadAt
	Bytes int64 // bytes that the calls of ReadAt requested
}

// Store decorates a store. Use New. It is safe for concurrent use.
type Store struct {
	inner store.Operations

	mu       sync.Mutex
	rules    []rule
	counts   Counts
	made     [calls]int
	requests []Request
}

type rule struct {
	Rule
	seen int
}

// New decorates a store with rules; without rules it only counts calls. The first rule that applies
// to a call determines the action, and later rules do not count the call.
func New(inner store.Store, rules ...Rule) *Store {
	s := &Store{inner: store.OperationsOf(inner)}
	s.Set(rules...)
	return s
}

// Set replaces the rules for later calls.
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

// Made returns how many calls of a kind began since New or Reset.
func (s *Store) Made(call Call) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[call]
}

// Requests returns the reads since New or Reset, in the order they began.
func (s *Store) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Reset sets the sums to zero, except the number of open objects, and removes the requests.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts, s.made, s.requests = Counts{Open: s.counts.Open}, [calls]int{}, nil
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

// begin counts a call and returns its action.
func (s *Store) begin(call Call, location string, count func()) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	count()
	s.made[call]++
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

func (o *object) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	location := o.Location()
	act := o.store.begin(Read, location, func() {
		o.store.counts.Reads++
		o.store.counts.Bytes += int64(p.Len())
		o.store.requests = append(o.store.requests, Request{Location: location, Offset: off, Bytes: p.Len()})
	})
	if err := act.before(ctx, location); err != nil {
		return err
	}
	if err := store.CheckRange(o, p.Len(), off); err != nil {
		return err
	}
	if act.kind == truncate && off+int64(p.Len()) > act.offset {
		return fault.New(fault.Corrupt, "file %s ends at byte %d", location, act.offset).In("", location)
	}
	if err := o.Object.ReadAt(act.under(ctx), p, off); err != nil {
		return err
	}
	if at := act.offset - off; act.kind == flip && at >= 0 && at < int64(p.Len()) {
		p.Bytes()[at] ^= act.mask
	}
	return nil
}

func (o *object) Close() error {
	o.store.mu.Lock()
	o.store.counts.Open--
	o.store.mu.Unlock()
	return o.Object.Close()
}
