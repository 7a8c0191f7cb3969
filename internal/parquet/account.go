package parquet

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// account asks the reader's caller for memory, and remembers its first refusal.
type account struct {
	admit  func(n, batch int64) error // nil: unlimited
	part   func(n int64) func()       // nil: nothing is reserved
	asking sync.Mutex                 // for those who may ask side by side: who is asked may wait

	mu      sync.Mutex
	refused error
}

// ask asks for n bytes; batch is what the open batch takes with them, 0 for what
// belongs to no batch.
func (a *account) ask(n, batch int64) error {
	if a.admit == nil || n <= 0 {
		return nil
	}
	err := a.admit(n, batch)
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.refused == nil {
			a.refused = err
		}
	}
	return err
}

// giveBack returns n bytes.
func (a *account) giveBack(n int64) {
	if a.admit != nil && n > 0 {
		_ = a.admit(-n, 0) // what is given back is not refused
	}
}

// leave takes n admitted bytes out of the account, until the function that it
// returns is called.
func (a *account) leave(n int64) (returned func()) {
	if a.part == nil {
		return func() {}
	}
	return a.part(n)
}

// refusal returns the first error that was answered, or nil. The library takes some
// panics for errors of its own.
func (a *account) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// refusal is what unwinds a decoder that was not admitted what it needs: an
// allocator has no error to return.
type refusal struct{ err error }

// refused turns a refusal into its error, and leaves other panics alone. It is
// deferred.
func refused(err *error) {
	switch r := recover().(type) {
	case nil:
	case refusal:
		*err = r.err
	default:
		panic(r) //nolint:forbidigo // it is not ours to stop
	}
}

// allowance allocates what one batch takes, or the open row group, and asks for it
// first where more is needed than was admitted at the beginning. A refusal is a
// panic with a refusal. The buffers of a batch know their own allowance, so that who
// frees them later makes no room in another. It is safe for concurrent use.
type allowance struct {
	under   memory.Allocator
	account *account

	mu       sync.Mutex
	used     int64 // bytes allocated and not freed
	admitted int64
	whole    bool // it is a batch's: all of it counts as the batch
	closed   bool // the batch is made: what is freed now is its holder's
}

// begin asks for what a batch is likely to take.
func (a *account) begin(under memory.Allocator, n int64) (*allowance, error) {
	if err := a.ask(n, n); err != nil {
		return nil, err
	}
	return &allowance{under: under, account: a, admitted: n, whole: true}, nil
}

// extend asks for what will be taken soon.
func (m *allowance) extend(n int64) error {
	if err := m.account.ask(n, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted += n
	return nil
}

// leave gives up a buffer whose read was left behind. The function that it returns
// frees it.
func (m *allowance) leave(b []byte) (free func()) {
	n := int64(len(b))
	m.mu.Lock()
	m.used -= n
	m.admitted -= n
	m.mu.Unlock()
	returned := m.account.leave(n)
	return func() {
		m.under.Free(b)
		returned()
	}
}

// empty returns what was admitted, when all memory is free.
func (m *allowance) empty() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.admitted
	m.used, m.admitted = 0, 0
	return n
}

// Allocate implements memory.Allocator.
func (m *allowance) Allocate(size int) []byte {
	m.take(int64(size))
	return m.under.Allocate(size)
}

// Reallocate implements memory.Allocator.
func (m *allowance) Reallocate(size int, b []byte) []byte {
	before, after := moved(size, b)
	m.take(before)
	out := m.under.Reallocate(size, b)
	m.give(after)
	return out
}

// Free implements memory.Allocator.
func (m *allowance) Free(b []byte) {
	size := int64(len(b))
	m.under.Free(b)
	m.give(size)
}

// moved returns the bytes that a reallocation takes before it, and those that it
// gives after: memory stays where it is if it is large enough, and not far too
// large; else there is both the old and the new for a moment.
func moved(size int, b []byte) (before, after int64) {
	if size <= cap(b) && size > cap(b)/4 {
		return int64(max(size-len(b), 0)), int64(max(len(b)-size, 0))
	}
	return int64(size), int64(len(b))
}

// take sees that n bytes more are admitted.
func (m *allowance) take(n int64) {
	if !m.reserve(n) {
		m.askFor(n)
	}
}

// reserve takes n bytes of what is admitted, if so many are left.
func (m *allowance) reserve(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	fits := m.closed || m.used+n <= m.admitted
	if fits {
		m.used += n
	}
	return fits
}

// askFor takes n bytes and asks for what is missing. The lock of the counts is not
// held meanwhile: who is asked may wait for a batch to be freed.
func (m *allowance) askFor(n int64) {
	m.account.asking.Lock()
	defer m.account.asking.Unlock()
	m.mu.Lock()
	m.used += n
	lack, batch := m.used-m.admitted, int64(0)
	if m.whole {
		batch = m.used
	}
	m.mu.Unlock()
	err := m.account.ask(lack, batch)
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

// adopt counts n bytes to what is taken that are admitted already, elsewhere.
func (m *allowance) adopt(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += n
}

// give says that n bytes are free.
func (m *allowance) give(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.used -= n
	}
}

// close ends the batch's account, and returns what it used and was admitted.
func (m *allowance) close() (used, admitted int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.used, m.admitted
}
