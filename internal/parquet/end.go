package parquet

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// FileTail is the end of a file, as it was read to find the footer. Reads of that part, which
// is all of a small file, need no storage. It is safe for concurrent use.
type FileTail struct {
	start   int64
	content atomic.Pointer[[]byte] // nil: dropped
}

// Bytes returns the bytes that an End holds, for its owner to charge.
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

// readAt fills p with the file's bytes at off, from the End as far as it reaches and
// otherwise from storage. The caller owns p as with [store.Object].
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

// inEnd reports whether the End holds a range of the file.
func (f *File) inEnd(s span) bool { return f.end.bytes() != nil && s.start >= f.end.start }

// needsRead reports whether loading spans reads from storage.
func (f *File) needsRead(spans []span) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return !f.inEnd(s) })
}
