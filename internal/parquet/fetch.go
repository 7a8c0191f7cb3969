package parquet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/store"
)

// Spare is memory that was reserved for reading ahead.
type Spare interface {
	// MarkInFlight announces that Release will be called soon. It is called at most once.
	MarkInFlight()
	// Release returns the memory. It is called once, on any goroutine.
	Release()
}

// fetch reads the stored bytes of a row group ahead, into memory that its owner may take
// back. fetch.mu guards every change of its state:
//
//	reserving ──Fetch──► reading ──run──► ready ──take──► taken
//	                      │   │             │               │
//	                      │   └─run─► failed│               │
//	                      drop          │   │               │
//	                      │             drop drop          release
//	                      ▼             ▼   ▼               │
//	                   dropped ──run──► released ◄──────────┘
//
// The goroutine of the Reader's caller runs Fetch, which asks ReadOptions.Ahead for a
// Spare; take, in Next; release, when that row group is closed; and drop, when the Reader
// ends or opens another row group. The goroutine of the fetch runs run. The memory's
// owner calls drop on any goroutine: reading marks the Spare as in flight, ready releases it at once,
// failed forgets its error, so that the row group is read again, and other states ignore
// it.
//
// The regions and the Spare are released on the way to failed and released. What a read
// that was left behind may still write to is released when that read returns.
type fetch struct {
	group   int
	memory  memory.Allocator
	cancel  context.CancelFunc
	done    chan struct{} // closed when no read runs, except those left behind
	regions []region      // of the reader in taken, otherwise of the fetch

	mu    sync.Mutex
	state fetchState
	spare Spare // nil in reserving
	err   error // of the reads, in failed
}

// fetchState is the state of a fetch.
type fetchState int

const (
	fetchReserving fetchState = iota // waiting for Ahead; drop has no effect yet
	fetchReading
	fetchReady   // all bytes are in regions
	fetchFailed  // a read failed; the memory is released
	fetchTaken   // the reader uses regions
	fetchDropped // reads still run, canceled
	fetchReleased
)

// Fetch starts to read the stored bytes of the next row group, if there is memory for
// them. It may be called after Read and between calls of Next.
func (r *Reader) Fetch() {
	if r.opts.Ahead == nil || r.ahead != nil || r.next >= len(r.opts.RowGroups) || r.err != nil {
		return
	}
	group := r.opts.RowGroups[r.next]
	spans := r.file.spans(group, r.columns)
	if r.file.groups[group].Rows == 0 || !r.file.needsRead(spans) {
		return
	}
	wanted := r.file.merge(spans)
	var bytes int64
	for _, s := range wanted {
		bytes += s.length
	}
	f := &fetch{group: group, memory: r.opts.Scratch, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(r.ctx)
	f.cancel = cancel
	spare, ok := r.opts.Ahead(bytes, f.drop)
	if !ok {
		cancel()
		return
	}
	f.mu.Lock()
	f.spare, f.state = spare, fetchReading
	f.mu.Unlock()
	for _, want := range wanted {
		f.regions = append(f.regions, region{span: want, content: f.memory.Allocate(int(want.length))})
	}
	r.ahead = f
	go f.run(ctx, r.file)
}

// run fills the regions.
func (f *fetch) run(ctx context.Context, file *File) {
	defer close(f.done)
	defer f.cancel()
	errs := file.readAll(ctx, f.regions)
	failed := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.state == fetchDropped:
		f.releaseLocked(fetchReleased, errs)
	case failed >= 0:
		f.err = errs[failed]
		f.releaseLocked(fetchFailed, errs)
	default:
		f.state = fetchReady
	}
}

// drop releases the memory, at once or when the reads end, unless the reader took it.
func (f *fetch) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.state {
	case fetchReading:
		f.state = fetchDropped
		f.cancel()
		f.spare.MarkInFlight()
	case fetchReady:
		f.releaseLocked(fetchReleased, nil)
	case fetchFailed:
		f.state, f.err = fetchReleased, nil
	case fetchReserving, fetchTaken, fetchDropped, fetchReleased:
	}
}

// stop drops the fetch and waits until it does nothing anymore.
func (f *fetch) stop() {
	f.drop()
	<-f.done
}

// take waits for the reads and hands the regions to the reader, which releases the fetch.
// It returns false if they failed or were dropped.
func (f *fetch) take(ctx context.Context) (bool, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != fetchReady {
		return false, f.err
	}
	f.state = fetchTaken
	return true, nil
}

// release releases what the reader took.
func (f *fetch) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseLocked(fetchReleased, nil)
}

// releaseLocked releases the regions and the Spare and enters a state. errs are the
// errors of the regions' reads: the memory of a read that was left behind is released
// when that read returns. f.mu is held.
func (f *fetch) releaseLocked(state fetchState, errs []error) {
	regions, spare := f.regions, f.spare
	f.state, f.regions = state, nil
	var left []error
	for i, r := range regions {
		if errs == nil || errs[i] == nil {
			f.memory.Free(r.content)
			continue
		}
		store.WhenReturned(errs[i], func() { f.memory.Free(r.content) })
		left = append(left, errs[i])
	}
	store.WhenReturned(errors.Join(left...), spare.Release)
}

// has reports whether a region belongs to the fetch.
func (f *fetch) has(content []byte) bool {
	return slices.ContainsFunc(f.regions, func(r region) bool { return unsafe.SliceData(r.content) == unsafe.SliceData(content) })
}

// takeFetched makes the fetched bytes of a row group the library's source. It returns
// false if there are none.
func (r *Reader) takeFetched(group int) (bool, error) {
	f := r.ahead
	r.ahead = nil
	if f == nil {
		return false, nil
	}
	if f.group != group {
		f.stop()
		return false, nil
	}
	took, err := f.take(r.ctx)
	if !took {
		f.stop()
		if err != nil {
			err = r.source.note(err)
		}
		return false, err
	}
	r.source.release()
	r.source.regions, r.source.fetched = slices.Clone(f.regions), f
	return true, nil
}

// stopFetch stops reading ahead.
func (r *Reader) stopFetch() {
	if r.ahead != nil {
		r.ahead.stop()
		r.ahead = nil
	}
}
