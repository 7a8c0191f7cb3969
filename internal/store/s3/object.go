package s3

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
)

// headBytes is how many bytes of a file of unknown size are read to open it. Most metadata files
// and manifest lists are shorter.
const headBytes = 256 << 10

// object is one open file. Size, head and held do not change once it is open.
type object struct {
	store    *Store
	location string
	bucket   string
	key      string
	size     int64
	head     []byte          // the file's first bytes, if its size was not known; otherwise nil
	held     *release.Handle // reservation of the memory of head
	does     intent

	mu  sync.Mutex
	tag string // tag that the first response had, or that the caller expects; "" if there is none yet
}

var _ store.Tagged = (*object)(nil)

// ReadAt implements store.Object.
func (o *object) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := store.CheckRange(o, p.Len(), off); err != nil {
		return err
	}
	done := 0
	if off < int64(len(o.head)) {
		done = copy(p.Bytes(), o.head[off:])
	}
	if done == p.Len() {
		return nil
	}
	return o.store.retry(ctx, o, func(ctx context.Context, t *try) error {
		n, err := o.fetch(ctx, t, p.Bytes()[done:], off+int64(done))
		done += n
		return err
	})
}

// readHead reads the first bytes of a file of unknown size, and sets its size.
func (o *object) readHead(ctx context.Context) error {
	done := 0
	return o.store.retry(ctx, o, func(ctx context.Context, t *try) error {
		if o.head == nil {
			n, err := o.fetchHead(ctx, t)
			done += n
			return err
		}
		n, err := o.fetch(ctx, t, o.head[done:], int64(done))
		done += n
		return err
	})
}

// Size implements store.Object.
func (o *object) Size() int64 { return o.size }

// Location implements store.Object.
func (o *object) Location() string { return o.location }

// Close implements store.Object.
func (o *object) Close() error {
	o.held.Release()
	return nil
}

// Tag implements store.Tagged.
func (o *object) Tag() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tag
}

// Expect implements store.Tagged.
func (o *object) Expect(tag string) error {
	if tag == "" {
		return nil
	}
	return o.tagged(tag)
}

// tagged records the tag of the first response, and compares the tags of later responses with it.
func (o *object) tagged(tag string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.tag == "":
		o.tag = tag
		return nil
	case tag == "":
		return broken("a response without an ETag, where others have one")
	case o.tag != tag:
		return o.replaced("its ETag is %s, and was %s", tag, o.tag)
	}
	return nil
}

// replaced returns the error for a file that has changed.
func (o *object) replaced(how string, args ...any) error {
	return fault.New(fault.Corrupt, "file %s was replaced while it was in use: "+how, append([]any{o.location}, args...)...).
		In("", o.location).WithRemedy("restore the file: files of a table never change")
}
