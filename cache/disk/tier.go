package disk

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Options configure a Tier.
type Options struct {
	// Folder is the tier's folder, an absolute path. It is created if its parent exists.
	Folder string
	// Name is the name of a folder inside Folder that the tier uses instead of Folder itself, so that tiers of different
	// processes can share a parent folder. It is created, too. If it is empty, the tier uses Folder.
	Name string
	// Limit is the maximum number of bytes on disk.
	Limit int64
	// Queue is the maximum number of bytes of queued arrays; 0: 64 MiB.
	Queue int64
	// Calls runs the calls to the disk, with their time limit; nil runs them without one.
	Calls *store.Calls
	// Memory allocates the arrays that are read; nil: the Go heap.
	Memory memory.Allocator
	// Budget is charged for the list of files; nil is unlimited.
	Budget *budget.Budget
	// Clock measures how long writing pauses after a failure of the disk.
	Clock func() time.Time
	// Log gets the first failure of each kind; nil: none is logged.
	Log *slog.Logger

	system *systemCalls // nil: the operating system
}

const (
	defaultQueue = 64 << 20
	// retryAfter is how long writing pauses after the disk was full or failed.
	retryAfter = time.Minute
	// listedBytes is the memory that is charged for each file.
	listedBytes = 256
)

// Tier stores chunks in a folder. It is safe for concurrent use. The caller closes it.
type Tier struct {
	options Options
	sys     systemCalls
	counts  counters
	queue   writeQueue
	writer  errgroup.Group
	stop    context.CancelFunc // stops the writer
	folder  *openedFolder
	listed  *budget.Reservation
	hanging atomic.Int64 // how many calls exceeded their time limit and have not returned

	mu     sync.Mutex
	ledger *ledger
	paused time.Time // when writing may resume
	closed bool
}

// Open opens a tier. It locks and lists the folder, removes incomplete files of killed processes,
// and deletes the chunks beyond the limit. It fails with fault.Conflict if another process has the
// folder, and with fault.Invalid if other users have access to it.
func Open(ctx context.Context, o Options) (*Tier, error) {
	o.Queue = cmp.Or(o.Queue, defaultQueue)
	t := &Tier{options: o, sys: realSystem(), ledger: newLedger(o.Limit)}
	if o.system != nil {
		t.sys = *o.system
	}
	t.counts.log, t.counts.logged = o.Log, map[string]bool{}
	if !filepath.IsAbs(o.Folder) {
		return nil, fault.New(fault.Invalid, "the cache folder %q is not an absolute path", o.Folder)
	}
	t.options.Folder = filepath.Join(o.Folder, o.Name)
	var err error
	t.folder, err = store.Call(ctx, o.Calls, "list", t.options.Folder, func(context.Context) (*openedFolder, error) {
		if o.Name != "" {
			if err := checkFolder(o.Folder); err != nil {
				return nil, err
			}
		}
		return openFolder(t.options.Folder, t.sys.remove)
	})
	if err != nil {
		return nil, err
	}
	if t.listed, err = o.Budget.Reserve("the list of the disk tier's files", 0); err != nil {
		_ = t.folder.Close()
		return nil, err
	}
	t.load(ctx)
	t.queue.init()
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.writer.Go(func() error {
		t.writeAll(writing)
		return nil
	})
	return t, nil
}

// load adds the listed files to the ledger, the last written first, as long as there is memory for
// their entries. It deletes the remaining files, and files beyond the limit.
func (t *Tier) load(ctx context.Context) {
	l := t.ledger
	l.used = t.folder.stuck
	var kept []foundFile
	for _, f := range slices.Backward(t.folder.files) {
		l.used += footprint(f.size)
		if t.listed.Grow(listedBytes) == nil {
			kept = append(kept, f)
			continue
		}
		if _, err := does(ctx, t, "delete", f.name, t.sys.remove); err == nil {
			l.used -= footprint(f.size)
		}
	}
	for _, f := range slices.Backward(kept) {
		l.add(f.key, f.size, f.cost)
	}
	t.folder.files = nil
	_ = t.makeRoom(ctx, 0) // files that are not deleted still count
}

func (t *Tier) path(name string) string { return filepath.Join(t.options.Folder, name) }

// Stats returns the counts so far.
func (t *Tier) Stats() TierStats {
	out := t.counts.get()
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Folder = FolderStats{Chunks: len(t.ledger.files), Bytes: t.ledger.used, Limit: t.ledger.limit, Queued: t.queue.size()}
	return out
}

// Has reports whether the tier has a chunk, without reading it.
func (t *Tier) Has(id ColumnID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.ledger.files[id.Key()]
	return f != nil && !f.leaving
}

// Close writes the queued chunks until ctx ends, drops the rest, and unlocks the folder. It
// abandons calls to a disk that hangs. Get and Put may be called after Close; they do nothing.
func (t *Tier) Close(ctx context.Context) {
	t.queue.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = t.writer.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.DropQueued()
	}
	t.stop()
	<-done // calls to the disk end with the writer's context
	t.mu.Lock()
	t.closed = true
	t.listed.Release()
	t.mu.Unlock()
	_, _ = store.Call(context.WithoutCancel(ctx), t.options.Calls, "unlock", t.path(lockName), func(context.Context) (struct{}, error) {
		return struct{}{}, t.folder.Close()
	})
}

// observe notes an abandoned call. Until the call returns, the tier does not use the disk. A call
// that was abandoned because its caller's context ended says nothing about the disk.
func (t *Tier) observe(ctx context.Context, left *store.Pending) {
	if left == nil || ctx.Err() != nil {
		return
	}
	t.hanging.Add(1)
	left.WhenReturned(func() { t.hanging.Add(-1) })
}

// call runs a call to the disk for a file. The Pending is not nil if the call was abandoned.
func call[T any](ctx context.Context, t *Tier, verb, name string, do func(path string) (T, error)) (T, *store.Pending, error) {
	path := t.path(name)
	out, left, err := store.CallPending(ctx, t.options.Calls, verb, path, func(context.Context) (T, error) { return do(path) })
	t.observe(ctx, left)
	return out, left, err
}

// does is like call, for a function without a result.
func does(ctx context.Context, t *Tier, verb, name string, do func(path string) error) (*store.Pending, error) {
	_, left, err := call(ctx, t, verb, name, func(path string) (struct{}, error) { return struct{}{}, do(path) })
	return left, err
}

// deleteFile deletes a file that is marked as leaving.
func (t *Tier) deleteFile(ctx context.Context, f *chunkFile) error {
	_, err := does(ctx, t, "delete", chunkName(f.key, f.cost), t.sys.remove)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ledger.left(f, err == nil)
	if !t.closed {
		t.listed.Shrink(listedBytes)
	}
	return err
}

// makeRoom deletes chunks until there is room for the given number of bytes, and reserves them.
func (t *Tier) makeRoom(ctx context.Context, bytes int64) error {
	for {
		t.mu.Lock()
		fits := t.ledger.fits(bytes)
		var victim *chunkFile
		if fits {
			t.ledger.used += bytes
		} else {
			victim = t.ledger.least()
		}
		t.mu.Unlock()
		switch {
		case fits:
			return nil
		case victim == nil:
			return fault.New(fault.Exhausted, "the disk tier has no room for %d bytes: all of its files are being read", bytes)
		}
		if err := t.deleteFile(ctx, victim); err != nil {
			return err
		}
		t.counts.add(func(s *TierStats) { s.Writes.Evicted++ })
	}
}

// unreserve frees bytes that makeRoom reserved.
func (t *Tier) unreserve(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ledger.used -= bytes
}
