package waits

import (
	"context"
	"time"
)

// Reads counts the reads of a cache and the requests to storage that were made for a stream, also those that were made ahead. Requests run at the same
// time, so their times may add up to more than the time of the stream.
type Reads struct {
	Requests int64
	Failed   int64 // of Requests: those that failed, also if they were repeated
	Bytes    int64
	Took     time.Duration // from the request to its last byte
	First    time.Duration // of Took: until the first byte of data; 0 if the store cannot tell
	Delayed  time.Duration // between a request that failed and its repetition
	Sought   int64         // columns of row groups that were looked up in the cache
	Found    int64         // of Sought
}

// add adds the reads of a reader since an earlier time.
func (r *Reads) add(to, from Reads) {
	r.Requests += to.Requests - from.Requests
	r.Failed += to.Failed - from.Failed
	r.Bytes += to.Bytes - from.Bytes
	r.Took += to.Took - from.Took
	r.First += to.First - from.First
	r.Delayed += to.Delayed - from.Delayed
	r.Sought += to.Sought - from.Sought
	r.Found += to.Found - from.Found
}

// Since returns the reads after an earlier count of the same stream.
func (r Reads) Since(before Reads) (out Reads) {
	out.add(r, before)
	return out
}

// Read counts reads for the stream of a context.
func Read(ctx context.Context, of Reads) {
	if w := Of(ctx); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reads.add(of, Reads{})
	}
}

// BeginRead begins a request of the stream of a context to a store that does not tell when the first byte arrives. The caller calls
// end once.
func BeginRead(ctx context.Context) (end func(bytes int, err error)) {
	w := Of(ctx)
	if w == nil {
		return func(int, error) {}
	}
	begun := w.clock()
	return func(bytes int, err error) {
		of := Reads{Requests: 1, Bytes: int64(bytes), Took: w.clock().Sub(begun)}
		if err != nil {
			of.Failed, of.Bytes = 1, 0
		}
		Read(ctx, of)
	}
}

// Reads returns the reads so far.
func (w *Waits) Reads() Reads {
	if w == nil {
		return Reads{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readsNow()
}

// readsNow does the work of Reads. w.mu is held.
func (w *Waits) readsNow() Reads {
	out := w.reads
	if w.reader != nil {
		out.add(w.reader.Reads(), w.read)
	}
	return out
}
