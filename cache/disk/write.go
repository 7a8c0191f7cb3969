package disk

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// writeAll writes the offers of the queue until it is closed and empty, or ctx ends.
func (t *Tier) writeAll(ctx context.Context) {
	w := &bodyWriter{scratch: make([]byte, scratchSize)}
	for {
		o := t.queue.next(ctx)
		if o == nil {
			return
		}
		t.write(ctx, w, o)
		if t.queue.written(o) {
			t.dropKey(ctx, o.key)
		}
		o.end()
	}
}

// write writes an offer, and counts the outcome.
func (t *Tier) write(ctx context.Context, w *bodyWriter, o *Offer) {
	if !t.writable() || ctx.Err() != nil {
		t.counts.add(func(s *TierStats) { s.Writes.Dropped++ })
		return
	}
	f, err := t.encode(w, o)
	if err != nil {
		t.counts.failed("a column is not stored on disk", err, func(s *TierStats) { s.Writes.Unstored++ })
		return
	}
	if err = t.makeRoom(ctx, footprint(f.size())); err == nil {
		err = t.writeFile(ctx, w, f)
	}
	switch {
	case err == nil:
		t.counts.add(func(s *TierStats) {
			s.Writes.Chunks++
			s.Writes.Bytes += f.size()
		})
	case ctx.Err() != nil || fault.KindOf(err) == fault.Exhausted:
		t.counts.add(func(s *TierStats) { s.Writes.Dropped++ })
	case isFull(err):
		t.pause()
		t.counts.failed("the disk of the cache folder is full before the tier's limit is reached", err, func(s *TierStats) { s.Writes.Failed++ })
	default:
		t.pause()
		t.counts.failed("a column could not be stored on disk", err, func(s *TierStats) { s.Writes.Failed++ })
	}
}

// dropKey deletes the file of a chunk, if there is one.
func (t *Tier) dropKey(ctx context.Context, key ChunkKey) {
	t.mu.Lock()
	f := t.ledger.files[key]
	leaves := f != nil && t.ledger.leave(f)
	t.mu.Unlock()
	if leaves {
		_ = t.deleteFile(context.WithoutCancel(ctx), f) // if this fails, its bytes stay counted
	}
}

// newFile is a file that is being written.
type newFile struct {
	offer   *Offer
	form    *arrayForm
	shape   *measuring
	layout  chunkLayout
	head    chunkHead
	begin   []byte // the encoded head, without checksums
	disk    diskFile
	pending *store.Pending // the abandoned call, which may still use the file and its memory
}

func (f *newFile) size() int64 { return f.head.length + f.head.body }

// encode computes the shape of an offer and the size of its file.
func (t *Tier) encode(w *bodyWriter, o *Offer) (*newFile, error) {
	of := o.Arrays[0].DataType()
	for _, a := range o.Arrays {
		if !arrow.TypeEqual(of, a.DataType()) {
			return nil, fault.New(fault.Internal, "the arrays of a chunk have types %s and %s", of, a.DataType())
		}
	}
	form, err := formOf(of)
	if err != nil {
		return nil, err
	}
	f := &newFile{offer: o, form: form}
	if f.shape, err = measure(form, o.Arrays); err != nil {
		return nil, err
	}
	var ok bool
	f.layout, ok = layOut(form, f.shape.forms, &f.shape.shape)
	f.head = chunkHead{id: o.ID, cost: o.Cost, of: typeText(of), shape: f.shape.shape, body: f.layout.bytes}
	if ok {
		f.head.sums = make([]uint64, f.layout.blocks())
		f.begin = f.head.encode()
	}
	if !ok || f.head.length > maxHead || footprint(f.size()) > t.options.Limit {
		return nil, fault.New(fault.Invalid, "a column chunk has %d bytes in %d arrays: the disk tier does not store it", f.head.body, len(o.Arrays))
	}
	w.key, w.sums = o.key, w.sums[:0]
	if w.block == nil {
		w.block = make([]byte, 0, blockSize)
	}
	w.block = w.block[:0]
	return f, nil
}

// writeFile writes a file under a temporary name, and renames it when it is complete. The bytes of
// the file are already reserved. After an error, writeFile deletes both names, and frees the bytes
// if that succeeds.
func (t *Tier) writeFile(ctx context.Context, w *bodyWriter, f *newFile) error {
	name, temp := chunkName(f.offer.key, f.offer.Cost), f.offer.key.String()+tempSuffix
	err := t.listed.Grow(listedBytes)
	if err != nil {
		t.unreserve(footprint(f.size()))
		return err
	}
	if err = t.fill(ctx, w, f, temp); err == nil {
		err = f.call(ctx, t, "rename", temp, func(path string) error { return t.sys.rename(path, t.path(name)) })
	}
	if err != nil {
		t.listed.Shrink(listedBytes)
		f.pending.WhenReturned(func() { t.abandon(context.WithoutCancel(ctx), f, temp, name) })
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ledger.add(f.offer.key, f.size(), f.offer.Cost)
	return nil
}

// fill creates the file, and writes its body and then its head.
func (t *Tier) fill(ctx context.Context, w *bodyWriter, f *newFile, temp string) (err error) {
	if f.disk, f.pending, err = call(ctx, t, "create", temp, t.sys.create); err != nil {
		return err
	}
	at := f.head.length
	w.store = func(block []byte) error {
		begin := at
		at += int64(len(block))
		return f.call(ctx, t, "write", temp, func(string) error { return writeFull(f.disk, block, begin) })
	}
	if err := w.body(f.form, f.shape, &f.layout, f.offer.Arrays); err != nil {
		return err
	}
	if at != f.size() || len(w.sums) != len(f.head.sums) {
		return fault.New(fault.Internal, "a column chunk has %d bytes and was measured as %d", at, f.size())
	}
	copy(f.head.sums, w.sums)
	f.head.seal(f.begin)
	if err := f.call(ctx, t, "write", temp, func(string) error { return writeFull(f.disk, f.begin, 0) }); err != nil {
		return err
	}
	disk := f.disk
	f.disk = nil
	return f.call(ctx, t, "close", temp, func(string) error { return disk.Close() })
}

// call runs a call that writes the file. After a failure, f makes no other call.
func (f *newFile) call(ctx context.Context, t *Tier, verb, name string, do func(path string) error) (err error) {
	f.pending, err = does(ctx, t, verb, name, do)
	return err
}

func writeFull(f diskFile, p []byte, at int64) error {
	n, err := f.WriteAt(p, at)
	if err == nil && n < len(p) {
		err = fmt.Errorf("%d of %d bytes were written", n, len(p))
	}
	return err
}

// abandon deletes a file that could not be written, once no call uses it.
func (t *Tier) abandon(ctx context.Context, f *newFile, names ...string) {
	var closing *store.Pending
	if f.disk != nil {
		closing, _ = does(ctx, t, "close", names[0], func(string) error { return f.disk.Close() })
	}
	closing.WhenReturned(func() {
		for _, name := range names {
			if _, err := does(ctx, t, "delete", name, t.sys.remove); err != nil {
				return // its bytes still count
			}
		}
		t.unreserve(footprint(f.size()))
	})
}
