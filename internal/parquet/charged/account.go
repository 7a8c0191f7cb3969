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
// Reserve moves bytes out of free (it calls Admit with a positive n), and Release moves bytes back
// into free (it calls Admit with a negative n). The caller gives the bytes of a batch back. Kept
// bytes are in buffers that the library still holds after the batch for which it allocated them.
//
// Detached bytes are memory that an abandoned read may still write to. Their release.Handle gives
// them back (ReadOptions.Part) when that read returns, on the read's goroutine. The goroutine that
// calls Next and Release makes all other moves. Goroutines that decode columns also move bytes into
// the open batch, one goroutine at a time, under the mutex asking. mu guards refused, and
// Allocator.mu guards the counts of used and admitted bytes. Neither mu is held while Admit runs,
// since Admit may wait for a batch to be freed.
type Account struct {
	Admit func(n, batch int64) error // nil: no limit
	Part  func(n int64) func()       // nil if Admit is nil

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

// reserve requests n bytes; the caller holds asking. batch is the size of the open batch including
// these bytes, or 0 if they belong to no batch.
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

// Release gives n bytes back.
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

// Refusal returns the first error of Admit, or nil. It is needed because the library turns some
// panics into its own errors, which hide the Refusal.
func (a *Account) Refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// Refusal is the panic value that unwinds a decoder when Admit refuses memory: an
// allocator has no error to return.
type Refusal struct{ Err error }

// Refused is deferred. It recovers from a panic with a Refusal and sets err to the refusal's error;
// other panics go on.
func Refused(err *error) {
	switch r := recover().(type) {
	case nil:
	case Refusal:
		*err = r.Err
	default:
		panic(r) //nolint:forbidigo // this panic is not a Refusal
	}
}

// Allocator allocates the memory of one batch, or of the open row group. What exceeds the amount
// that was admitted at the start, it reserves from the account. If Admit refuses, Allocate panics
// with a Refusal. The buffers of a batch keep a pointer to the Allocator of that batch, so freeing
// them later does not make room in another batch's Allocator. It is safe for concurrent use.
type Allocator struct {
	under   memory.Allocator
	account *Account

	mu       sync.Mutex
	used     int64 // bytes allocated and not yet freed
	admitted int64
	ofBatch  bool                      // whether the Allocator belongs to a batch, whose size is then used
	closed   bool                      // whether the batch is finished: memory that is freed from then on is charged to the batch's holder
	detached map[*byte]*release.Handle // by buffer: the handle of bytes that no longer belong to the account
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

// Detach takes a buffer to which a read may still write out of the account. The buffer may be freed
// after the reader was released; its bytes are given back when it is freed.
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

// takeDetached returns the handle of a detached buffer, or false if the buffer was not detached.
func (m *Allocator) takeDetached(b []byte) (*release.Handle, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	part, ok := m.detached[unsafe.SliceData(b)]
	delete(m.detached, unsafe.SliceData(b))
	return part, ok
}

// Drain returns the number of admitted bytes and sets the counts to zero. All memory must have been
// freed.
func (m *Allocator) Drain() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.admitted
	m.used, m.admitted = 0, 0
	return n
}

// Allocate reserves the bytes that are missing, if any, and allocates a buffer.
func (m *Allocator) Allocate(size int) []byte {
	m.take(int64(size))
	return m.under.Allocate(size)
}

// Reallocate reserves the bytes that are missing, if any, and reallocates a buffer.
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

// reallocated returns the number of bytes that a reallocation takes first, and the number of bytes
// that it frees afterwards. A buffer that is large enough, and at most four times too large, stays
// in place; otherwise the old one and the new one exist together for a moment.
func reallocated(size int, b []byte) (before, after int64) {
	if size <= cap(b) && size > cap(b)/4 {
		return int64(max(size-len(b), 0)), int64(max(len(b)-size, 0))
	}
	return int64(size), int64(len(b))
}

// take counts n bytes as used. It reserves bytes from the account if fewer are admitted than used.
func (m *Allocator) take(n int64) {
	if !m.tryTake(n) {
		m.takeMore(n)
	}
}

// tryTake counts n bytes as used if enough bytes are admitted, and reports whether it did.
func (m *Allocator) tryTake(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	fits := m.closed || m.used+n <= m.admitted
	if fits {
		m.used += n
	}
	return fits
}

// takeMore counts n bytes as used and reserves the bytes that are missing. It does not hold mu
// while it reserves them, because Admit may wait for a batch to be freed.
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
		panic(Refusal{err}) //nolint:forbidigo // an allocator has no other way to fail; Refused recovers
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

// Close ends the batch. It returns the number of bytes that the batch uses and the number of bytes
// that were admitted for it. Buffers of the batch may live long, so Close removes their reference
// to the reader's account.
func (m *Allocator) Close() (used, admitted int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.account = true, nil
	return m.used, m.admitted
}
