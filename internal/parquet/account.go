package parquet

import (
	"cmp"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/release"
)

// account passes a Reader's requests for memory on to ReadOptions.Admit, and keeps the
// first refusal.
//
// A Reader has one account, one trackedAllocator for the open row group (Reader.scratch)
// and one for each batch (Reader.batchMemory). Admitted bytes move between these places:
//
//	free ──openGroup──► row group ──closeGroup──► free
//	                        └──a read is left behind──► detached ──it returns──► free
//
//	free ──startBatch, takeMore──► open batch ──finishBatch──┬──► batch (Reader.Admitted)
//	                                   ▲                     ├──► free, if not used
//	                                   └──handOut── kept ◄───┘
//	                                                  └──closeGroup──► free
//
// reserve moves bytes out of free (Admit with a positive n) and release into it (Admit
// with a negative n). The caller returns those of a batch. Kept bytes are in buffers that
// the library still holds after their batch.
//
// Detached bytes are memory that a read which was left behind may still write to. Their
// release.Handle returns them (ReadOptions.Part) when that read returns, on its goroutine.
// All other moves are made by the goroutine that calls Next and Release, and those into
// the open batch also by the goroutines of decodeAll, one at a time under asking. mu
// guards refused, and trackedAllocator.mu the counts of used and admitted bytes. Neither
// of these two is held while Admit runs, since Admit may wait for a batch to be freed.
type account struct {
	admit  func(n, batch int64) error // nil: no limit
	part   func(n int64) func()       // nil: nothing is reserved
	asking sync.Mutex                 // serializes concurrent requests; held while Admit waits

	mu      sync.Mutex
	refused error
}

// reserve requests n bytes. batch is the size of the open batch with them, or 0 if the
// bytes belong to no batch.
func (a *account) reserve(n, batch int64) error {
	if a.admit == nil || n <= 0 {
		return nil
	}
	err := a.admit(n, batch)
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refused = cmp.Or(a.refused, err)
	}
	return err
}

// release returns n bytes.
func (a *account) release(n int64) {
	if a.admit != nil && n > 0 {
		_ = a.admit(-n, 0) // returning memory is never refused
	}
}

// detach takes n admitted bytes out of the account until the Handle is released.
func (a *account) detach(n int64) *release.Handle {
	if a.part == nil {
		return nil
	}
	return release.New(a.part(n))
}

// refusal returns the first error of Admit, or nil. It is needed because the library
// turns some panics into errors of its own.
func (a *account) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// refusal is the panic value that unwinds a decoder when Admit refuses memory: an
// allocator has no error to return.
type refusal struct{ err error }

// refused is deferred. It turns a refusal into its error and passes other panics on.
func refused(err *error) {
	switch r := recover().(type) {
	case nil:
	case refusal:
		*err = r.err
	default:
		panic(r) //nolint:forbidigo // it is not ours to stop
	}
}

// trackedAllocator allocates the memory of one batch, or of the open row group, and
// reserves from the account what exceeds the amount admitted at the start. If Admit
// refuses, Allocate panics with a refusal. The buffers of a batch keep a pointer to their
// own trackedAllocator, so freeing them later does not make room in another. It is safe
// for concurrent use.
type trackedAllocator struct {
	under   memory.Allocator
	account *account

	mu       sync.Mutex
	used     int64 // bytes allocated and not yet freed
	admitted int64
	ofBatch  bool                      // it belongs to a batch: all of used counts as the batch
	closed   bool                      // the batch is finished: memory freed from now on is its holder's
	detached map[*byte]*release.Handle // buffers that belong to the account no more, and their bytes
}

// newBatchAllocator reserves the estimated size of a batch.
func (a *account) newBatchAllocator(under memory.Allocator, n int64) (*trackedAllocator, error) {
	if err := a.reserve(n, n); err != nil {
		return nil, err
	}
	return &trackedAllocator{under: under, account: a, admitted: n, ofBatch: true}, nil
}

// extend reserves n bytes that will be allocated soon.
func (m *trackedAllocator) extend(n int64) error {
	if err := m.account.reserve(n, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted += n
	return nil
}

// detach gives up a buffer that a read may still write to: it may be freed after the reader was
// released, and its bytes are returned then.
func (m *trackedAllocator) detach(b []byte) {
	n := int64(len(b))
	part := m.account.detach(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	m.admitted -= n
	if m.detached == nil {
		m.detached = map[*byte]*release.Handle{}
	}
	m.detached[unsafe.SliceData(b)] = part
}

// takeDetached returns what detach kept of a buffer, or false if it was not detached.
func (m *trackedAllocator) takeDetached(b []byte) (*release.Handle, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	part, ok := m.detached[unsafe.SliceData(b)]
	delete(m.detached, unsafe.SliceData(b))
	return part, ok
}

// drain returns the admitted bytes and sets the counts to zero. All memory must be free.
func (m *trackedAllocator) drain() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.admitted
	m.used, m.admitted = 0, 0
	return n
}

func (m *trackedAllocator) Allocate(size int) []byte {
	m.take(int64(size))
	return m.under.Allocate(size)
}

func (m *trackedAllocator) Reallocate(size int, b []byte) []byte {
	before, after := reallocated(size, b)
	m.take(before)
	out := m.under.Reallocate(size, b)
	m.release(after)
	return out
}

func (m *trackedAllocator) Free(b []byte) {
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
func (m *trackedAllocator) take(n int64) {
	if !m.tryTake(n) {
		m.takeMore(n)
	}
}

// tryTake allocates n of the admitted bytes, if there are enough.
func (m *trackedAllocator) tryTake(n int64) bool {
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
func (m *trackedAllocator) takeMore(n int64) {
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
		panic(refusal{err}) //nolint:forbidigo // an allocator has no other way to fail; recovered and refused end it
	}
}

// adopt adds n bytes that were admitted elsewhere to used.
func (m *trackedAllocator) adopt(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += n
}

// release subtracts n freed bytes from used.
func (m *trackedAllocator) release(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.used -= n
	}
}

// close ends the batch and returns the bytes that it uses and those that were admitted
// for it. Buffers of the batch may be kept for long: from now on they refer to nothing of the
// reader and its stream.
func (m *trackedAllocator) close() (used, admitted int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.account = true, nil
	return m.used, m.admitted
}
