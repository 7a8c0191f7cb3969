// Package charged allocates the memory of a reader of Parquet files, after an account has reserved it.
package charged

import (
	"cmp"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/release"
)

// Account passes a Reader's requests for memory on to ReadOptions.Admit, and keeps the first refusal.
//
// A Reader has one Account, one Allocator for the open row group and one for each batch. Admitted
// bytes move between these places:
//
//	free ──openGroup──► row group ──close──► free
//	                        └──a read is abandoned───► detached ──it returns──► free
//
//	free ──NewBatch, takeMore──► open batch ──finishBatch──┬──► batch (Reader.Admitted)
//	                                 ▲                     ├──► free, if not used
//	                                 └──HandOut── kept ◄───┘
//	                                                └──close──► free
//
// Reserve moves bytes out of free (Admit with a positive n) and Release into it (Admit
// with a negative n). The caller returns those of a batch. Kept bytes are in buffers that
// the library still holds after their batch.
//
// Detached bytes are memory that an abandoned read may still write to. Their
// release.Handle returns them (ReadOptions.Part) when that read returns, on its goroutine.
// All other moves are made by the goroutine that calls Next and Release, and those into
// the open batch also by the goroutines that decode columns, one at a time under asking. mu
// guards refused, and Allocator.mu the counts of used and admitted bytes. Neither
// of these two is held while Admit runs, since Admit may wait for a batch to be freed.
type Account struct {
	Admit func(n, batch int64) error // nil: no limit
	Part  func(n int64) func()       // nil: nothing is reserved

	asking sync.Mutex // serializes concurrent requests; held while Admit waits

	mu      sync.Mutex
	refused error
}

// Reserve requests n bytes that belong to no batch.
func (a *Account) Reserve(n int64) error {
	a.asking.Lock()
	defer a.asking.Unlock()
	return a.reserve(n, 0)
}

// reserve requests n bytes, under asking. batch is the size of the open batch with them, or 0 if they
// belong to no batch.
func (a *Account) reserve(n, batch int64) error {
	if a.Admit == nil || n <= 0 {
		return nil
	}
	err := a.Admit(n, batch)
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refused = cmp.Or(a.refused, err)
	}
	return err
}

// Release returns n bytes.
func (a *Account) Release(n int64) {
	if a.Admit != nil && n > 0 {
		_ = a.Admit(-n, 0) // returning memory is never refused
	}
}

// Detach takes n admitted bytes out of the account until the Handle is released.
func (a *Account) Detach(n int64) *release.Handle {
	if a.Part == nil {
		return nil
	}
	return release.New(a.Part(n))
}

// Refusal returns the first error of Admit, or nil. It is needed because the library
// turns some panics into errors of its own.
func (a *Account) Refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// Refusal is the panic value that unwinds a decoder when Admit refuses memory: an
// allocator has no error to return.
type Refusal struct{ Err error }

// Refused is deferred. It turns a Refusal into its error and passes other panics on.
func Refused(err *error) {
	switch r := recover().(type) {
	case nil:
	case Refusal:
		*err = r.Err
	default:
		panic(r) //nolint:forbidigo // it is not ours to stop
	}
}

// Allocator allocates the memory of one batch, or of the open row group, and
// reserves from the account what exceeds the amount admitted at the start. If Admit
// refuses, Allocate panics with a Refusal. The buffers of a batch keep a pointer to their
// own Allocator, so freeing them later does not make room in another. It is safe
// for concurrent use.
type Allocator struct {
	under   memory.Allocator
	account *Account

	mu       sync.Mutex
	used     int64 // bytes allocated and not yet freed
	admitted int64
	ofBatch  bool                      // it belongs to a batch: all of used counts as the batch
	closed   bool                      // the batch is finished: memory freed from now on is its holder's
	detached map[*byte]*release.Handle // buffers that belong to the account no more, and their bytes
}

// NewGroup returns the allocator of a row group, for which nothing is reserved yet.
func (a *Account) NewGroup(under memory.Allocator) *Allocator {
	return &Allocator{under: under, account: a}
}

// NewBatch reserves the estimated size of a batch and returns its allocator.
func (a *Account) NewBatch(under memory.Allocator, n int64) (*Allocator, error) {
	a.asking.Lock()
	defer a.asking.Unlock()
	if err := a.reserve(n, n); err != nil {
		return nil, err
	}
	return &Allocator{under: under, account: a, admitted: n, ofBatch: true}, nil
}

// Extend reserves n bytes that will be allocated soon.
func (m *Allocator) Extend(n int64) error {
	if err := m.account.Reserve(n); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted += n
	return nil
}

// Detach gives up a buffer that a read may still write to: it may be freed after the reader was
// released, and its bytes are returned then.
func (m *Allocator) Detach(b []byte) {
	n := int64(len(b))
	part := m.account.Detach(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	m.admitted -= n
	if m.detached == nil {
		m.detached = map[*byte]*release.Handle{}
	}
	m.detached[unsafe.SliceData(b)] = part
}

// takeDetached returns what Detach kept of a buffer, or false if it was not detached.
func (m *Allocator) takeDetached(b []byte) (*release.Handle, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	part, ok := m.detached[unsafe.SliceData(b)]
	delete(m.detached, unsafe.SliceData(b))
	return part, ok
}

// Drain returns the admitted bytes and sets the counts to zero. All memory must be free.
func (m *Allocator) Drain() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.admitted
	m.used, m.admitted = 0, 0
	return n
}

// Allocate reserves what is missing and allocates.
func (m *Allocator) Allocate(size int) []byte {
	m.take(int64(size))
	return m.under.Allocate(size)
}

// Reallocate reserves what is missing and allocates again.
func (m *Allocator) Reallocate(size int, b []byte) []byte {
	before, after := reallocated(size, b)
	m.take(before)
	out := m.under.Reallocate(size, b)
	m.release(after)
	return out
}

// Free frees a buffer.
func (m *Allocator) Free(b []byte) {
	part, detached := m.takeDetached(b)
	m.under.Free(b)
	if detached {
		part.Release()
		return
	}
	m.release(int64(len(b)))
}

// reallocated returns the bytes that a reallocation takes first and those that it frees
// afterwards. A buffer that is large enough, and at most four times too large, stays in
// place; otherwise the old one and the new one exist together for a moment.
func reallocated(size int, b []byte) (before, after int64) {
	if size <= cap(b) && size > cap(b)/4 {
		return int64(max(size-len(b), 0)), int64(max(len(b)-size, 0))
	}
	return int64(size), int64(len(b))
}

// take allocates n bytes, which it reserves from the account if they exceed what is
// admitted.
func (m *Allocator) take(n int64) {
	if !m.tryTake(n) {
		m.takeMore(n)
	}
}

// tryTake allocates n of the admitted bytes, if there are enough.
func (m *Allocator) tryTake(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	fits := m.closed || m.used+n <= m.admitted
	if fits {
		m.used += n
	}
	return fits
}

// takeMore allocates n bytes and reserves those that are missing. mu is not held
// meanwhile, because Admit may wait for a batch to be freed.
func (m *Allocator) takeMore(n int64) {
	m.account.asking.Lock()
	defer m.account.asking.Unlock()
	m.mu.Lock()
	m.used += n
	lack, batch := m.used-m.admitted, int64(0)
	if m.ofBatch {
		batch = m.used
	}
	m.mu.Unlock()
	err := m.account.reserve(lack, batch)
	m.mu.Lock()
	if err == nil {
		m.admitted += max(lack, 0)
	} else {
		m.used -= n
	}
	m.mu.Unlock()
	if err != nil {
		panic(Refusal{err}) //nolint:forbidigo // an allocator has no other way to fail; Refused ends it
	}
}

// adopt adds n bytes that were admitted elsewhere to used.
func (m *Allocator) adopt(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += n
}

// release subtracts n freed bytes from used.
func (m *Allocator) release(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.used -= n
	}
}

// Close ends the batch and returns the bytes that it uses and those that were admitted
// for it. Buffers of the batch may be kept for long: from now on they refer to nothing of the
// reader and its stream.
func (m *Allocator) Close() (used, admitted int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.account = true, nil
	return m.used, m.admitted
}
