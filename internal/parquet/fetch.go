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

// fetch reads the stored bytes of a row group ahead, into memory that the memory's owner may take
// back. fetch.mu guards every change of the fetch's state:
//
//	reserving ──Fetch──► reading ──run──► ready ◄──take, release──► taken
//	    │                 │   │             │
//	    │                 │   └─run─► failed│
//	 refuse               drop          │   │
//	    │                 │             drop drop, release, leave
//	    ▼                 ▼             ▼   ▼
//	    └───► released ◄─run─ dropped   released
//
// The goroutine of the Reader's caller runs Fetch, which asks ReadOptions.Ahead for a Spare; take,
// in Next; release, when that row group is closed; and stop, when the Reader ends or opens another
// row group. The goroutine of the fetch runs run. The memory's owner calls drop on any goroutine.
// What drop does depends on the state: in reading, it marks the Spare as in flight; in ready, it
// releases the Spare at once; in failed, it drops the error, so that the row group is read again.
// In the other states it does nothing, and neither while a Reader uses the bytes or waits for bytes
// that it has reserved.
//
// A fetch of SharedChunks may have several Readers, which joined it and have not left. Some of
// these Readers are users: they have taken the bytes. When the last Reader leaves, the bytes stay
// if they are still needed, until they are dropped or taken again. If all users agree to give the
// bytes up, the Spare is marked as in flight; it is released when all users have left.
//
// The regions are released when the fetch enters the state failed or released. The Spare is
// released when the memory of all regions is free: an abandoned read keeps its region until it
// returns.
type fetch struct {
	of      chunkRange
	memory  memory.Allocator
	cancel  context.CancelFunc
	done    chan struct{} // closed when all reads have ended, except abandoned ones
	regions []region      // in the state taken they belong to the users, otherwise to the fetch
	shared  *SharedChunks // nil: the fetch is used by one Reader only

	dictionaries sharedDictionaries // of the users

	mu      sync.Mutex
	state   fetchState
	held    *spareMemory            // nil in the state reserving
	err     error                   // of the reads; set in the state failed
	readers int                     // number of readers that joined and have not left
	users   map[*source]func() bool // ReadOptions.GiveUp of each reader that took the bytes, or takes them as soon as they are read
	ending  bool                    // whether all users have agreed to give up the bytes
}

// fetchState is the state of a fetch.
type fetchState int

const (
	fetchReserving fetchState = iota // waiting for ReadOptions.Ahead; drop has no effect yet
	fetchReading
	fetchReady   // all bytes are in regions
	fetchFailed  // a read failed; the memory is released
	fetchTaken   // readers use regions
	fetchDropped // the reads were canceled, but still run
	fetchReleased
)

// refuse ends a fetch that gets no memory.
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

// spareMemory is the memory of a fetch. It releases the Spare once the fetch has called release and
// every allocation has been freed.
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

// run reads the stored bytes into the regions.
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

// stop is called when a reader that has not taken the bytes leaves. If this reader started the
// reads, stop cancels them and waits until the fetch has ended, so that the object from which they
// read may be closed.
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

// take waits for the reads and registers the source of a reader as a user of the regions; the
// source calls release later. It returns false if the reads failed or were dropped.
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

// await waits for the reads. If the context ends before, it returns the context's cause.
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

// release is called when a reader that took the bytes leaves.
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

// settleLocked releases the bytes if no reader has joined the fetch and no reader will need them.
// The caller holds f.mu.
func (f *fetch) settleLocked() {
	if f.state == fetchReady && f.readers == 0 && !f.shared.needs(f.of) {
		f.releaseLocked(fetchReleased)
	}
}

// releaseLocked releases the memory and enters the given state. The caller holds f.mu.
func (f *fetch) releaseLocked(state fetchState) {
	for _, r := range f.regions {
		r.release()
	}
	f.state, f.regions = state, nil
	f.dictionaries.release(f.memory)
	f.held.release()
}
