package parquet

import (
	"context"
)

// ahead reads the stored bytes of the next row group while the open one is decoded.
type ahead struct {
	*reading
	fetch   *fetch        // nil: none
	started bool          // whether this Reader started fetch
	coming  cachedColumns // cached columns of the next row group, if start has looked them up
}

// start starts to read a row group, if there is memory for it.
func (a *ahead) start(group int) {
	from, to := a.wanted(group)
	if from == to {
		return
	}
	columns := a.lookAhead(group)
	spans := a.file.spans(group, columns)
	if len(spans) == 0 || a.opts.Shared == nil && !a.file.needsRead(spans) {
		return
	}
	f, joined := a.opts.Shared.join(a.chunkRange(group, columns), a.newFetch)
	if joined {
		a.fetch = f
		return
	}
	wanted, bytes := a.file.wanted(spans)
	ctx, cancel := context.WithCancel(a.ctx)
	f.cancel = cancel
	spare, ok := a.opts.Ahead(bytes, f.drop)
	if !ok {
		f.refuse()
		return
	}
	f.start(wanted, spare)
	a.fetch, a.started = f, true
	go f.run(ctx, a.file)
}

// newFetch returns a fetch that has no memory yet and only this Reader.
func (r *reading) newFetch(of chunkRange) *fetch {
	return &fetch{of: of, memory: r.opts.Scratch, shared: r.opts.Shared, done: make(chan struct{}), readers: 1, users: map[*source]func() bool{}}
}

// lookAhead returns the columns of the next row group without those that are cached.
func (a *ahead) lookAhead(group int) []column {
	if !a.coming.looked || a.coming.group != group {
		a.coming.release()
		a.coming = a.look(group)
	}
	return a.coming.without(a.all)
}

// takeCached returns the cached columns of a row group that is being opened.
func (a *ahead) takeCached(group int) cachedColumns {
	if !a.coming.looked || a.coming.group != group {
		return a.look(group)
	}
	out := a.coming
	a.coming = cachedColumns{}
	return out
}

// take makes the fetched bytes of a row group the library's source. It returns false if the row
// group was not fetched.
func (a *ahead) take(group int) (bool, error) {
	f := a.fetch
	if f == nil {
		return false, nil
	}
	if f.of.group != group {
		a.stop()
		return false, nil
	}
	took, err := f.take(a.ctx, a.source)
	if !took {
		started := a.started
		a.stop()
		if err != nil && started {
			return false, a.source.note(err)
		}
		return false, context.Cause(a.ctx) // the error of another Reader's read does not fail this Reader, which reads the bytes again
	}
	a.fetch, a.started = nil, false
	a.source.use(f)
	return true, nil
}

// stop stops reading ahead.
func (a *ahead) stop() {
	if a.fetch != nil {
		a.fetch.stop(a.started)
		a.fetch, a.started = nil, false
	}
}
