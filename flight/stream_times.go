package flight

import (
	"maps"
	"time"

	"github.com/penstock/penstock/internal/waits"
)

// StreamTimes is how long the streams of a dataset have been open, including the time before they
// had a slot, and how long they have waited and worked. Both count streams that ended and streams that run,
// and only rise.
type StreamTimes struct {
	Open  time.Duration
	Times waits.Totals // waited and worked
	// Starved is how long the client of an open stream has waited for its next batch, of the
	// stream whose client has waited longest at this time. It is 0 if no client waits.
	Starved time.Duration
}

// StreamTimes returns the times of all streams since the server was made, by dataset. The dataset
// is "" for queries that carry their dataset.
func (s *Server) StreamTimes() map[string]StreamTimes { return s.running.allTimes() }

// allTimes returns the times of all streams, by dataset.
func (r *runningStreams) allTimes() map[string]StreamTimes {
	r.mu.Lock()
	defer r.mu.Unlock()
	starved := map[string]time.Duration{}
	for one := range r.all {
		r.count(one)
		starved[one.query.Dataset] = max(starved[one.query.Dataset], one.starved(r.ticks()))
	}
	out := maps.Clone(r.times)
	for dataset, longest := range starved {
		of := out[dataset]
		of.Starved = longest
		out[dataset] = of
	}
	return out
}

// count adds to times what a stream has done since it was counted last. r.mu is held, so that no
// scrape sees a sum that falls when a stream ends.
func (r *runningStreams) count(one *runningStream) {
	open, before := r.ticks().Sub(one.entered), one.counted
	spent, _, _ := one.waits.Now()
	all := r.times[one.query.Dataset]
	all.Open += max(0, open-before.Open)
	one.counted.Open = max(open, before.Open)
	for c := range spent {
		all.Times[c] += max(0, spent[c]-before.Times[c])
		one.counted.Times[c] = max(spent[c], before.Times[c])
	}
	r.times[one.query.Dataset] = all
}

// starved returns how long the client has waited for its next batch; 0 if the server waits for the
// client.
func (one *runningStream) starved(now time.Time) time.Duration {
	if _, cause, waiting := one.waits.Now(); one.parked.Load() || waiting && cause == waits.Trainer {
		return 0
	}
	return max(0, now.Sub(one.entered)-time.Duration(one.delivered.Load()))
}
