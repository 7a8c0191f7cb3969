package slowness

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
)

// Spent is what a stream did in an interval.
type Spent struct {
	Open  time.Duration // the interval
	Times waits.Totals
	Reads waits.Reads
	// Beside is for how long the other streams of the server worked, added up; Cores is the number of its cores. 0: not known.
	Beside time.Duration
	Cores  int
	// InFlight reports that batches that clients have not taken fill the memory for them.
	InFlight bool
	// CacheFull reports that the cache had no room for columns. Cached reports that the server has a cache.
	Cached, CacheFull bool
}

// Limit is what a stream spends most of its time on.
type Limit struct {
	Cause Cause   `json:"cause"`
	Share float64 `json:"share"` // of the time for which the stream was open, from 0 to 1
	// Why are the figures that lead to the cause; "" if the cause needs none.
	Why    string `json:"why,omitempty"`
	Remedy string `json:"remedy"`
}

const (
	// leastShare is the share of its time from which something limits a stream.
	leastShare = 0.1
	// slowFirst is the mean time until the first byte from which storage is slow: S3 takes some tens of milliseconds.
	slowFirst = 150 * time.Millisecond
	// smallRead is the mean size below which a request takes as long as a request for nothing.
	smallRead = 128 << 10
	// manyFailed is the share of requests from which failures matter.
	manyFailed = 0.1
)

// Of returns what limits a stream; nil if nothing is known yet.
func Of(s Spent) *Limit {
	s.Times = ofClient(s.Times)
	var top waits.Cause
	for _, c := range append(waits.Causes(), waits.Works()...) {
		if s.Times.Of(c) > s.Times.Of(top) {
			top = c
		}
	}
	if s.Open <= 0 {
		return nil
	}
	share := s.Times.Of(top).Seconds() / s.Open.Seconds()
	if share < leastShare {
		return nil
	}
	out := &Limit{Cause: causeOf(top, s), Share: min(1, share)}
	out.Why, out.Remedy = s.why(out.Cause), out.Cause.Remedy()
	return out
}

// ofClient gives all waits for the client one cause. Between a server and a slow network, buffers and the windows of HTTP/2 also
// fill, so that a part of the waits looks as if the client did not read. If only the client is slow, its connection takes nearly all bytes.
func ofClient(t waits.Totals) waits.Totals {
	both := t.Of(waits.Trainer) + t.Of(waits.Network)
	if t.Of(waits.Network) > both*3/10 {
		t[waits.Trainer], t[waits.Network] = 0, both
	} else {
		t[waits.Trainer], t[waits.Network] = both, 0
	}
	return t
}

// causeOf returns the cause that the most time of a stream has, given by what it was spent on.
func causeOf(top waits.Cause, s Spent) Cause {
	switch top {
	case waits.Trainer:
		return Trainer
	case waits.Network:
		return Network
	case waits.Slot:
		return Slot
	case waits.Memory:
		if s.InFlight {
			return InFlight
		}
		return Memory
	case waits.Stream:
		return Stream
	case waits.Deletes:
		return Deletes
	case waits.Storage:
		return s.storage()
	case waits.Plan:
		return Plan
	case waits.Spill:
		return Spill
	case waits.Decode:
		return s.work(Decode)
	case waits.Build:
		return s.work(Build)
	case waits.Compute:
		return s.work(Compute)
	case waits.Join:
		return s.work(Join)
	case waits.Send:
		return s.work(Send)
	}
	return ""
}

// work returns a kind of work that needs cores, or that there are too few of them.
func (s Spent) work(c Cause) Cause {
	if s.Cores > 0 && s.Open+s.Beside > time.Duration(s.Cores)*s.Open+s.Open/2 {
		return Cores
	}
	return c
}

// storage returns why the stream waits for storage.
func (s Spent) storage() Cause {
	r := s.Reads
	switch {
	case r.Failed > 0 && (float64(r.Failed) >= manyFailed*float64(r.Requests) || r.Delayed > r.Took/2):
		return StorageErrors
	case r.First > r.Took/2 && s.first() >= slowFirst:
		return StorageLatency
	case s.small():
		return SmallReads
	case r.First > r.Took/2:
		return StorageLatency
	}
	return StorageBandwidth
}

// small reports whether requests read few bytes.
func (s Spent) small() bool {
	return s.Reads.Requests > 0 && s.Reads.Bytes/s.Reads.Requests < smallRead
}

// first returns how long a request has waited for its first byte, in the mean.
func (s Spent) first() time.Duration { return s.Reads.First / time.Duration(max(1, s.Reads.Requests)) }

// why returns the figures that lead to a cause.
func (s Spent) why(c Cause) string {
	r := s.Reads
	text := ""
	switch c {
	case StorageErrors:
		text = fmt.Sprintf("%d of %s failed", r.Failed, fault.Count(int(r.Requests), "request"))
	case StorageLatency:
		text = fmt.Sprintf("%s waited %s each for the first byte", fault.Count(int(r.Requests), "request"), s.first().Round(time.Millisecond))
		if s.small() {
			text += fmt.Sprintf(", and read %s each: larger files need fewer requests", fault.Size(r.Bytes/r.Requests))
		}
	case StorageBandwidth:
		text = fmt.Sprintf("%s came at %s/s for each request", fault.Size(r.Bytes), fault.Size(int64(float64(r.Bytes)/max((r.Took-r.First).Seconds(), 1e-3))))
	case SmallReads:
		text = fmt.Sprintf("%s read %s each", fault.Count(int(r.Requests), "request"), fault.Size(r.Bytes/max(1, r.Requests)))
	case Cores:
		text = fmt.Sprintf("%.1f other streams work at the same time, on %s", s.Beside.Seconds()/s.Open.Seconds(), fault.Count(s.Cores, "core"))
	case Decode:
	case Trainer, Network, Slot, Memory, InFlight, Stream, Deletes, Plan, Spill, Build, Compute, Join, Send:
		return ""
	}
	if cache := s.cache(); cache != "" {
		if text != "" {
			text += "; "
		}
		text += cache
	}
	return text
}

// cache says what the cache had of what was read; "" if it had most of it, or is not used.
func (s Spent) cache() string {
	r := s.Reads
	if !s.Cached || r.Sought == 0 || 2*r.Found >= r.Sought {
		return ""
	}
	text := fmt.Sprintf("the cache had %d of %s", r.Found, fault.Count(int(r.Sought), "column"))
	if s.CacheFull {
		return text + " and is full"
	}
	return text + " and fills"
}
