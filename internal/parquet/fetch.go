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

// Spare is memory that was reserved for what is read ahead.
type Spare interface {
	// Lend says that the memory comes back by itself, soon.
	Lend()
	// Release gives it back.
	Release()
}

// fetch is the stored bytes of a row group that are read before it is opened. It is
// taken by the reader, or dropped: by the reader, or by who wants the memory.
type fetch struct {
	group   int
	memory  memory.Allocator
	cancel  context.CancelFunc
	done    chan struct{} // closed when no read runs that was not left behind
	regions []region

	mu      sync.Mutex
	spare   Spare // nil until it was given
	running bool
	taken   bool
	dropped bool
	err     error
}

// Fetch begins to read the stored bytes of the row group that is opened next, if there
// is memory to spare. It is called between calls of Next, and after Read.
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
	f := &fetch{group: group, memory: r.opts.Scratch, done: make(chan struct{}), running: true}
	ctx, cancel := context.WithCancel(r.ctx)
	f.cancel = cancel
	spare, ok := r.opts.Ahead(bytes, f.drop)
	if !ok {
		cancel()
		return
	}
	f.mu.Lock()
	f.spare = spare
	f.mu.Unlock()
	for _, want := range wanted {
		f.regions = append(f.regions, region{span: want, content: f.memory.Allocate(int(want.length))})
	}
	r.ahead = f
	go f.run(ctx, r.file)
}

// run reads. What it reads into is freed by who takes it, or else by itself.
func (f *fetch) run(ctx context.Context, file *File) {
	defer close(f.done)
	defer f.cancel()
	errs := file.readAll(ctx, f.regions)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = false
	for _, err := range errs {
		if err != nil && f.err == nil {
			f.err = err
		}
	}
	if f.err != nil || f.dropped {
		f.free(errs)
	}
}

// drop gives the memory up, at once or as soon as nothing is read into it any more,
// unless the reader has it.
func (f *fetch) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken || f.dropped || f.spare == nil {
		return
	}
	f.dropped = true
	f.cancel()
	switch {
	case f.running:
		f.spare.Lend()
	case f.err == nil:
		f.free(nil)
	}
}

// take waits for the reads, and makes what they gave the reader's; false if there is
// nothing to take. Who takes it releases it.
func (f *fetch) take(ctx context.Context) (bool, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped {
		return false, nil
	}
	f.taken = true
	return f.err == nil, f.err
}

// release frees what was taken.
func (f *fetch) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free(nil)
}

// free gives all memory back, also if some is with reads that were left behind: then
// when these return. f.mu is held.
func (f *fetch) free(errs []error) {
	regions, spare := f.regions, f.spare
	f.regions = nil
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

// has says whether memory is of this fetch.
func (f *fetch) has(content []byte) bool {
	return slices.ContainsFunc(f.regions, func(r region) bool { return unsafe.SliceData(r.content) == unsafe.SliceData(content) })
}

// takeFetched makes what was fetched of a row group what the decoder reads from, and
// says whether there was something.
func (r *Reader) takeFetched(group int) (bool, error) {
	f := r.ahead
	r.ahead = nil
	if f == nil {
		return false, nil
	}
	if f.group != group {
		r.quiet(f)
		return false, nil
	}
	took, err := f.take(r.ctx)
	if err != nil || !took {
		r.quiet(f)
		if err != nil {
			return false, r.source.note(err)
		}
		return false, nil
	}
	r.source.release()
	r.source.regions, r.source.fetched = slices.Clone(f.regions), f
	return true, nil
}

// quiet ends a fetch, and waits until it does nothing any more.
func (r *Reader) quiet(f *fetch) {
	f.drop()
	<-f.done
}

// dropFetch ends what is fetched ahead, if something is.
func (r *Reader) dropFetch() {
	if r.ahead != nil {
		r.quiet(r.ahead)
		r.ahead = nil
	}
}
