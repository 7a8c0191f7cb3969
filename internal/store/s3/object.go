package s3

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// headBytes is how much of a file of unknown size is read to open it: whole are most
// metadata files and manifest lists.
const headBytes = 256 << 10

// object is one open file. Its size, head and released do not change once it is open.
type object struct {
	store    *Store
	location string
	bucket   string
	key      string
	size     int64
	head     []byte // its first bytes, where the size was not known
	released func() // gives the memory of head back
	writes   bool   // it is made or removed, and not read

	mu  sync.Mutex
	tag string // of the first response, or of an earlier reader of the file; "": none yet
}

var _ store.Tagged = (*object)(nil)

// ReadAt implements store.Object.
func (o *object) ReadAt(ctx context.Context, p []byte, off int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := store.CheckRange(o, len(p), off); err != nil {
		return err
	}
	done := 0
	if off < int64(len(o.head)) {
		done = copy(p, o.head[off:])
	}
	if done == len(p) {
		return nil
	}
	return o.store.retry(ctx, o, func(ctx context.Context, t *try) error {
		n, err := o.fetch(ctx, t, p[done:], off+int64(done))
		done += n
		return err
	})
}

// readHead reads the first bytes of a file whose size is not known, and finds it.
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

// verb is what is done to the file, in errors.
func (o *object) verb() string {
	if o.writes {
		return "write"
	}
	return "read"
}

// Size implements store.Object.
func (o *object) Size() int64 { return o.size }

// Location implements store.Object.
func (o *object) Location() string { return o.location }

// Close implements store.Object.
func (o *object) Close() error {
	o.released()
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

// tagged remembers the tag of the first response, and compares those of all others.
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

// replaced is the error for a file that has changed.
func (o *object) replaced(how string, args ...any) error {
	return fault.New(fault.Corrupt, "file %s was replaced while it was in use: "+how, append([]any{o.location}, args...)...).
		In("", o.location).WithRemedy("restore the file: files of a table never change")
}
