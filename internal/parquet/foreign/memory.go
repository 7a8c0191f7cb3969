package foreign

import "github.com/apache/arrow-go/v18/arrow/memory"

// batchMemory allocates the memory of one batch after another, and reserves the memory before it
// allocates it. This limit is needed because the library decodes the requested number of rows
// whatever their size: a text that a column stores once may occur in each row. All methods except
// Free are called by one goroutine.
type batchMemory struct {
	memory.Allocator
	reserve  func(bytes int64) error // nil: nothing is reserved
	most     int64                   // maximum bytes of a batch; 0: no limit
	used     int64                   // allocated for the batch
	reserved int64                   // reserved for the batch; at least used
	refused  error                   // why the last batch failed; nil: it did not
}

// tooLargeError is the error for a batch that takes more memory than it may.
type tooLargeError struct{}

// Error implements error.
func (tooLargeError) Error() string { return "the batch takes too much memory" }

// Allocate implements memory.Allocator. It panics if there is no room: an allocator has no error to return.
func (m *batchMemory) Allocate(size int) []byte {
	m.take(int64(size))
	return m.Allocator.Allocate(size)
}

// Reallocate implements memory.Allocator. Like Allocate, it panics if there is no room. It copies
// the content, so the old and the new memory exist together for a moment.
func (m *batchMemory) Reallocate(size int, b []byte) []byte {
	m.take(int64(size))
	out := m.Allocator.Reallocate(size, b)
	if m.reserve != nil {
		m.used -= int64(min(size, cap(b)))
	}
	return out
}

// take reserves bytes that are about to be allocated.
func (m *batchMemory) take(bytes int64) {
	if m.reserve == nil {
		return
	}
	if m.most > 0 && m.used+bytes > m.most {
		m.refused = tooLargeError{}
		panic(m.refused) //nolint:forbidigo // an allocator has no error to return
	}
	if more := m.used + bytes - m.reserved; more > 0 {
		if err := m.reserve(more); err != nil {
			m.refused = err
			panic(m.refused) //nolint:forbidigo // an allocator has no error to return
		}
		m.reserved += more
	}
	m.used += bytes
}

// end ends a batch, and returns the number of bytes that are reserved for it.
func (m *batchMemory) end() int64 {
	reserved := m.reserved
	m.used, m.reserved, m.refused = 0, 0, nil
	return reserved
}
