package disk

import (
	"context"
	"path/filepath"

	"github.com/penstock/penstock/internal/fault"
)

// DropAll deletes all chunks, and drops the offers that are queued or being written. It returns the
// number and the bytes of the files that it deleted. Files that cannot be deleted still count
// against the limit and are not read again.
func (t *Tier) DropAll(ctx context.Context) (chunks int, bytes int64) {
	t.dropOffers(func(*Offer) bool { return true })
	t.mu.Lock()
	all := t.complete()
	t.mu.Unlock()
	for _, f := range all {
		t.drop(ctx, f, &chunks, &bytes)
	}
	return chunks, bytes
}

// DropTables is like DropAll for the chunks of the tables with the given uuids. It reads the heads
// of all files. Files with a damaged head stay, since they are never used. DropTables fails if
// there is no memory, or if the disk does not answer; then some chunks of the tables may remain.
func (t *Tier) DropTables(ctx context.Context, uuids map[string]bool) (chunks int, bytes int64, err error) {
	t.dropOffers(func(o *Offer) bool { return uuids[o.ID.Table] })
	held, err := t.options.Budget.Reserve("the heads of files of the disk tier", maxHead+firstRead)
	if err != nil {
		return 0, 0, err
	}
	defer held.Release()
	t.mu.Lock()
	all := t.complete()
	t.mu.Unlock()
	for _, f := range all {
		if err := ctx.Err(); err != nil {
			return chunks, bytes, context.Cause(ctx)
		}
		of, err := t.tableOf(ctx, f)
		if err != nil {
			return chunks, bytes, err
		}
		if uuids[of] {
			t.drop(ctx, f, &chunks, &bytes)
		}
	}
	return chunks, bytes, nil
}

// complete returns the files that are not being deleted. t.mu is held.
func (t *Tier) complete() []*chunkFile {
	all := make([]*chunkFile, 0, len(t.ledger.files))
	for _, f := range t.ledger.files {
		if !t.closed && !f.leaving {
			all = append(all, f)
		}
	}
	return all
}

// dropOffers drops the queued offers that match. If the offer that is being written matches, the
// writer deletes its file afterward.
func (t *Tier) dropOffers(match func(*Offer) bool) {
	dropped := t.queue.drop(match)
	t.queue.condemn(match)
	t.counts.add(func(s *TierStats) { s.Writes.Dropped += int64(dropped) })
}

// drop deletes a file and counts it.
func (t *Tier) drop(ctx context.Context, f *chunkFile, chunks *int, bytes *int64) {
	t.mu.Lock()
	leaves := t.ledger.leave(f)
	t.mu.Unlock()
	if leaves && t.deleteFile(ctx, f) == nil {
		*chunks++
		*bytes += footprint(f.size)
	}
}

// tableOf returns the uuid of a chunk's table, or "" if its head is damaged or its file is missing.
// It fails only if the disk does not answer.
func (t *Tier) tableOf(ctx context.Context, f *chunkFile) (string, error) {
	t.mu.Lock()
	open := t.ledger.open(f.key) == f
	t.mu.Unlock()
	if !open {
		return "", nil
	}
	before := t.hanging.Load()
	name := chunkName(f.key, f.cost)
	h, left, err := call(ctx, t, "read", name, func(path string) (*chunkHead, error) {
		return readHead(t.sys.open, path, foundFile{name: filepath.Base(path), key: f.key, cost: f.cost, size: f.size})
	})
	left.WhenReturned(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ledger.closeUnread(f)
	})
	switch {
	case err == nil:
		return h.id.Table, nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case t.hanging.Load() > before:
		return "", fault.New(fault.Unavailable, "the disk of the cache folder does not answer: %w", err).WithRemedy("drop the table again when the disk works; until then, its columns are not read")
	default:
		return "", nil
	}
}

// readHead reads the head of a file and decodes it up to the shape.
func readHead(open func(string) (diskFile, error), path string, f foundFile) (*chunkHead, error) {
	disk, err := open(path)
	if err != nil {
		return nil, err
	}
	defer disk.Close() //nolint:errcheck // it was only read
	content := make([]byte, min(f.size, firstRead))
	if err := readFull(disk, content, 0); err != nil {
		return nil, err
	}
	length, err := headLength(content)
	if err != nil {
		return nil, err
	}
	if length > f.size {
		return nil, damaged("it ends within its head")
	}
	whole := make([]byte, length)
	if err := readFull(disk, whole, 0); err != nil {
		return nil, err
	}
	h, _, err := decodeID(whole, f.key)
	return h, err
}
