package storetest

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// NewBuffer returns a buffer over p, for calls of a store, and a channel that is closed when its
// last reference is released. Then p is overwritten.
func NewBuffer(p []byte) (*memory.Buffer, <-chan struct{}) {
	f := freed{memory.DefaultAllocator, make(chan struct{})}
	return memory.NewBufferWithAllocator(p, f), f.done
}

type freed struct {
	memory.Allocator
	done chan struct{}
}

func (f freed) Free(p []byte) {
	copy(p, bytes.Repeat([]byte{0xdb}, len(p)))
	close(f.done)
}
