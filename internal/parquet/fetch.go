package parquet

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/waits"
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
//	reserving ──Fetch──► reading ──run──► ready ◄──take, release──► taken
//	    │                 │   │             │
//	    │                 │   └─run─► failed│
//	 refuse               drop          │   │
//	    │                 │             drop drop, release, leave
//	    ▼                 ▼             ▼   ▼
//	    └───► released ◄─run─ dropped   released
//
// The goroutine of the Reader's caller runs Fetch, which asks ReadOptions.Ahead for a
// Spare; take, in Next; release, when that row group is closed; and stop, when the Reader
// ends or opens another row group. The goroutine of the fetch runs run. The memory's
// owner calls drop on any goroutine: reading marks the Spare as in flight, ready releases it at once,
// failed forgets its error, so that the row group is read again, and other states ignore
// it, as do all states while a Reader uses the bytes or waits for those that it reserved.
//
// A fetch of SharedChunks has several Readers: those that joined it and have not left, and among
// them the users, which took the bytes. When the last one leaves, the bytes stay if they are still
// needed, until they are dropped or taken again. If all users agree to give the bytes up, the Spare
// is marked as in flight; it is released when they have left.
//
// The regions are released on the way to failed and released. The Spare is released when they are
// free: an abandoned read keeps its region until it returns.
type fetch struct {
	of      chunkRange
	memory  memory.Allocator
	cancel  context.CancelFunc
	done    chan struct{} // closed when no read runs, except abandoned ones
	regions []region      // of the users in taken, otherwise of the fetch
	shared  *SharedChunks // nil: of one Reader

	dictionaries sharedDictionaries // of the users

	mu      sync.Mutex
	state   fetchState
	held    *spareMemory            // nil in reserving
	err     error                   // of the reads, in failed
	readers int                     // that joined and have not left
	users   map[*source]func() bool // readers that took the bytes, or will as soon as they are read, and their GiveUp
	ending  bool                    // all users give up the bytes
}

// fetchState is the state of a fetch.
type fetchState int

const (
	fetchReserving fetchState = iota // waiting for Ahead; drop has no effect yet
	fetchReading
	fetchReady   // all bytes are in regions
	fetchFailed  // a read failed; the memory is released
	fetchTaken   // readers use regions
	fetchDropped // reads still run, canceled
	fetchReleased
)

// refuse ends a fetch for which there is no memory.
func (f *fetch) refuse() {
	defer close(f.done)
	defer f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = fetchReleased
}

// start allocates the regions, whose memory is reserved.
func (f *fetch) start(wanted []span, spare Spare) {
	f.mu.Lock()
	f.held, f.state = newSpareMemory(f.memory, spare), fetchReading
	f.mu.Unlock()
	for _, want := range wanted {
		f.regions = append(f.regions, newRegion(want, f.held))
	}
}

// spareMemory is the memory of a fetch, whose Spare is released after the fetch has released it
// and all that was allocated is free.
type spareMemory struct {
	memory.Allocator
	spare   Spare
	holders atomic.Int64
}

func newSpareMemory(under memory.Allocator, spare Spare) *spareMemory {
	m := &spareMemory{Allocator: under, spare: spare}
	m.holders.Store(1)
	return m
}

func (m *spareMemory) Allocate(size int) []byte {
	m.holders.Add(1)
	return m.Allocator.Allocate(size)
}

func (m *spareMemory) Free(b []byte) {
	m.Allocator.Free(b)
	m.release()
}

func (m *spareMemory) release() {
	if m.holders.Add(-1) == 0 {
		m.spare.Release()
	}
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
		f.releaseLocked(fetchReleased)
	case failed >= 0:
		f.err = errs[failed]
		f.releaseLocked(fetchFailed)
	case len(f.users) > 0:
		f.state = fetchTaken
	default:
		f.state = fetchReady
		f.settleLocked()
	}
}

// drop releases the memory, at once or when the reads end, unless a reader uses it.
func (f *fetch) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked()
}

func (f *fetch) dropLocked() {
	switch f.state {
	case fetchReading:
		if len(f.users) == 0 {
			f.state = fetchDropped
			f.cancel()
			f.held.spare.MarkInFlight()
		}
	case fetchReady:
		f.releaseLocked(fetchReleased)
	case fetchFailed:
		f.state, f.err = fetchReleased, nil
	case fetchReserving, fetchTaken, fetchDropped, fetchReleased:
	}
}

// stop makes a reader leave that has not taken the bytes. If it started the reads, they are
// canceled, and it waits until the fetch does nothing anymore: their object may be closed then.
func (f *fetch) stop(started bool) {
	f.mu.Lock()
	if f.readers--; started && f.state == fetchReading || f.shared == nil {
		f.dropLocked()
	}
	f.settleLocked()
	f.mu.Unlock()
	if started {
		<-f.done
	}
}

// take waits for the reads and hands the regions to the source of a reader, which releases the
// fetch. It returns false if they failed or were dropped.
func (f *fetch) take(ctx context.Context, by *source) (bool, error) {
	if err := f.await(ctx); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != fetchReady && f.state != fetchTaken || f.ending {
		return false, f.err
	}
	f.state = fetchTaken
	f.users[by] = by.giveUp
	return true, nil
}

// await waits for the reads, or returns the cause of a context that ends.
func (f *fetch) await(ctx context.Context) error {
	select {
	case <-f.done:
		return nil
	default:
	}
	defer waits.Begin(ctx, waits.Storage)()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release makes a reader leave that took the bytes.
func (f *fetch) release(by *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers--
	if delete(f.users, by); len(f.users) > 0 {
		return
	}
	f.state = fetchReady
	if f.ending {
		f.dropLocked()
	}
	f.settleLocked()
}

// settleLocked releases bytes that no reader has joined and none will. f.mu is held.
func (f *fetch) settleLocked() {
	if f.state == fetchReady && f.readers == 0 && !f.shared.needs(f.of) {
		f.releaseLocked(fetchReleased)
	}
}

// releaseLocked releases the memory and enters a state. f.mu is held.
func (f *fetch) releaseLocked(state fetchState) {
	for _, r := range f.regions {
		r.release()
	}
	f.state, f.regions = state, nil
	f.dictionaries.release(f.memory)
	f.held.release()
}
