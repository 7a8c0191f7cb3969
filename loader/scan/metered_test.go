package scan_test

import (
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
)

// slack is what may be allocated beyond what is reserved.
const slack = 4 << 10

// metered is an allocator that compares what is allocated with what is reserved,
// whenever more is asked for: memory is reserved before it is taken.
type metered struct {
	limit *budget.Budget

	mu   sync.Mutex
	live int64
	over int64 // the most that was allocated and not reserved
}

func (m *metered) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live += n
	m.over = max(m.over, m.live-m.limit.Used())
}

// check says that nothing was taken that was not reserved.
func (m *metered) check(t testing.TB) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.LessOrEqual(t, m.over, int64(slack), "bytes were allocated before they were reserved")
}

// put puts the meter over an allocator.
func (m *metered) put(under memory.Allocator) memory.Allocator { return meter{Allocator: under, of: m} }

// meter is one of the allocators that are counted together.
type meter struct {
	memory.Allocator
	of *metered
}

func (m meter) Allocate(size int) []byte {
	m.of.add(int64(size))
	return m.Allocator.Allocate(size)
}

func (m meter) Reallocate(size int, b []byte) []byte {
	had := len(b)
	if size > cap(b) { // there are both for a moment
		m.of.add(int64(size))
		defer m.of.add(-int64(had))
	} else {
		m.of.add(int64(size - had))
	}
	return m.Allocator.Reallocate(size, b)
}

func (m meter) Free(b []byte) {
	m.of.add(-int64(len(b)))
	m.Allocator.Free(b)
}
