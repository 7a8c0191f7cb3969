package parquet

import (
	"context"
	"slices"
	"sync/atomic"
)

// End is the end of a file, as it was read to find the footer. What lies in it need not
// be read again: of a small file, that is all of it. It is safe for concurrent use.
type End struct {
	start   int64
	content atomic.Pointer[[]byte] // nil: it was dropped
}

// Bytes is the memory that an End holds, for who keeps it to charge.
func (e *End) Bytes() int64 { return int64(len(e.bytes())) }

// Drop lets go of the memory. What lies there is read again.
func (e *End) Drop() { e.content.Store(nil) }

func (e *End) bytes() []byte {
	if e == nil {
		return nil
	}
	if content := e.content.Load(); content != nil {
		return *content
	}
	return nil
}

// readAt fills p with the file's bytes from off on: those that the end has from there,
// the others from storage.
func (f *File) readAt(ctx context.Context, p []byte, off int64) error {
	if have := f.end.bytes(); have != nil && off+int64(len(p)) > f.end.start {
		from := max(f.end.start-off, 0)
		copy(p[from:], have[max(off-f.end.start, 0):])
		p = p[:from]
		if from == 0 {
			return nil
		}
	}
	return f.obj.ReadAt(ctx, p, off)
}

// inEnd says whether a part of the file is in memory already.
func (f *File) inEnd(s span) bool { return f.end.bytes() != nil && s.start >= f.end.start }

// reads says whether spans cost a read of storage.
func (f *File) reads(spans []span) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return !f.inEnd(s) })
}
