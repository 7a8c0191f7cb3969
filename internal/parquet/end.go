package parquet

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// FileTail has the last bytes of a file, kept since they were read to find the footer. Reads of
// those bytes, which are the whole file if it is small, do not go to storage. It is safe for
// concurrent use.
type FileTail struct {
	start   int64
	content atomic.Pointer[[]byte] // nil: dropped
}

// Bytes returns the number of bytes that the FileTail holds, for its owner to charge.
func (e *FileTail) Bytes() int64 { return int64(len(e.bytes())) }

// Drop frees the memory. Later reads go to storage.
func (e *FileTail) Drop() { e.content.Store(nil) }

func (e *FileTail) bytes() []byte {
	if e == nil {
		return nil
	}
	if content := e.content.Load(); content != nil {
		return *content
	}
	return nil
}

// readAt fills p with the file's bytes at off: those that the FileTail holds from memory, and the
// others from storage. The rules for the ownership of p are those of [store.Object].
func (f *File) readAt(ctx context.Context, p *memory.Buffer, off int64) error {
	if have := f.end.bytes(); have != nil && off+int64(p.Len()) > f.end.start {
		from := max(f.end.start-off, 0)
		copy(p.Bytes()[from:], have[max(off-f.end.start, 0):])
		if from == 0 {
			return nil
		}
		p = memory.SliceBuffer(p, 0, int(from))
		defer p.Release()
	}
	return f.obj.ReadAt(ctx, p, off)
}

// inEnd reports whether the FileTail holds a range of the file.
func (f *File) inEnd(s span) bool { return f.end.bytes() != nil && s.start >= f.end.start }

// needsRead reports whether loading spans reads from storage.
func (f *File) needsRead(spans []span) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return !f.inEnd(s) })
}
