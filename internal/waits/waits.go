// Package waits counts how long a stream waits, and what for.
//
// A server makes a Waits for each stream and puts it into the stream's context. Whatever waits on behalf of the stream
// begins a wait with that context, and ends it. At any moment a stream waits for one thing at most: waits at the same time
// count as the first of them in the order of Causes. So the times of a stream never add up to more than the time for which it
// was open, and the rest is work.
//
// Storage is special: goroutines that decode ahead wait for it while the stream does something else. Their waits count only
// while a goroutine waits for the rows that they decode.
package waits

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Cause is the cause of a wait.
type Cause int

// The causes.
const (
	Trainer Cause = iota // the client has not taken the last batch
	Slot                 // max_streams are open
	Memory               // the budget has no room, or batches that other clients have not taken fill theirs
	Stream               // another stream reads what this one needs
	Storage              // files of tables are opened and read
)

// count is the number of causes.
const count = 5

// Causes returns all causes. Of waits at the same time, the first one in this order counts.
func Causes() []Cause { return []Cause{Trainer, Slot, Memory, Stream, Storage} }

// String returns the name of a cause in answers and metrics.
func (c Cause) String() string {
	switch c {
	case Trainer:
		return "trainer"
	case Slot:
		return "slot"
	case Memory:
		return "memory"
	case Stream:
		return "stream"
	case Storage:
		return "storage"
	}
	return ""
}

// Totals is how long a stream has waited, by cause.
type Totals [count]time.Duration

// Of returns the time for one cause.
func (t Totals) Of(c Cause) time.Duration { return t[c] }

// add adds the times of reading: those that a group's reader has for its streams.
func (t *Totals) add(to, from Totals) {
	for _, c := range readerCauses() {
		t[c] += to[c] - from[c]
	}
}

// readerCauses returns the causes for which the readers of groups may wait.
func readerCauses() []Cause { return []Cause{Memory, Stream, Storage} }

// Waits is the waits of one stream, or of a reader that several streams share. It is safe for concurrent use. A nil *Waits
// counts nothing.
type Waits struct {
	clock func() time.Time

	mu     sync.Mutex
	active [count]int
	rows   int    // goroutines that wait for rows of a scan
	reader *Waits // of the reader that the stream waits for; nil: none
	before Totals // of reader, when the stream began to wait for it
	total  Totals // up to since
	since  time.Time

	seen      Seen     // nil: nobody looks
	followers []*Waits // those that are looked at, of the streams that wait for this reader
}

// Seen is called with a time for which a stream has waited, when the time is counted. It must not call the Waits.
type Seen func(c Cause, begin, end time.Time)

// Observe makes each time that is counted be passed to seen. It is called before the Waits are used.
func (w *Waits) Observe(seen Seen) { w.seen = seen }

// New returns the waits of a stream that waits for nothing.
func New(clock func() time.Time) *Waits { return &Waits{clock: clock, since: clock()} }

// Shared returns the waits of a reader that this stream and others share.
func (w *Waits) Shared() *Waits {
	if w == nil {
		return nil
	}
	return New(w.clock)
}

// waitsKey is the key of a context's Waits.
type waitsKey struct{}

// With returns a context whose waits count as those of w.
func With(ctx context.Context, w *Waits) context.Context {
	return context.WithValue(ctx, waitsKey{}, w)
}

// Of returns the waits of a context; nil if it has none.
func Of(ctx context.Context) *Waits {
	w, _ := ctx.Value(waitsKey{}).(*Waits)
	return w
}

// Begin begins a wait of a context's stream. The caller calls end once.
func Begin(ctx context.Context, c Cause) (end func()) { return Of(ctx).Begin(c) }

// Begin begins a wait. The caller calls end once.
func (w *Waits) Begin(c Cause) (end func()) {
	return w.change(func(by int) { w.active[c] += by })
}

// AwaitRows begins a wait for rows that other goroutines decode: meanwhile, their waits for storage count.
func (w *Waits) AwaitRows() (end func()) {
	return w.change(func(by int) { w.rows += by })
}

// change changes a number of waits by 1, and back at the end.
func (w *Waits) change(apply func(by int)) (end func()) {
	if w == nil {
		return func() {}
	}
	one := func(by int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.charge()
		apply(by)
	}
	one(1)
	return func() { one(-1) }
}

// Follow begins to wait for a reader that several streams share: until the end, its waits are those of the stream.
func (w *Waits) Follow(reader *Waits) (end func()) {
	if w == nil || reader == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charge()
	w.before = reader.follow(w, true)
	w.reader = reader
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.charge()
		before := w.total
		w.total.add(reader.follow(w, false), w.before)
		w.reader = nil
		if w.seen != nil { // it has seen each wait of the reader
			return
		}
		for _, c := range readerCauses() {
			if took := w.total[c] - before[c]; took > 0 {
				w.pass(c, w.since.Add(-took), w.since)
			}
		}
	}
}

// follow makes the waits of a reader be passed to a follower, or no longer, and returns how long the reader has waited so far.
func (w *Waits) follow(by *Waits, begins bool) Totals {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, _, _ := w.now()
	switch {
	case by.seen == nil:
	case begins:
		w.followers = append(w.followers, by)
	default:
		w.followers = slices.DeleteFunc(w.followers, func(one *Waits) bool { return one == by })
	}
	return all
}

// charge counts the time since the last change. w.mu is held.
func (w *Waits) charge() {
	now := w.clock()
	if c, waits := w.current(); waits && now.After(w.since) {
		w.total[c] += now.Sub(w.since)
		w.show(c, now)
	}
	w.since = now
}

// show passes a wait that began at w.since to those that look. w.mu is held.
func (w *Waits) show(c Cause, end time.Time) {
	if w.seen != nil {
		w.seen(c, w.since, end)
	}
	if len(w.followers) > 0 && slices.Contains(readerCauses(), c) {
		w.pass(c, w.since, end)
	}
}

// pass passes a wait of a reader to its followers. w.mu is held.
func (w *Waits) pass(c Cause, begin, end time.Time) {
	for _, one := range w.followers {
		one.seen(c, begin, end)
	}
}

// current returns what the stream itself waits for, if it waits. w.mu is held.
func (w *Waits) current() (c Cause, waits bool) {
	for _, c := range Causes() {
		if w.active[c] > 0 && (c != Storage || w.rows > 0) {
			return c, true
		}
	}
	return 0, false
}

// Now returns how long the stream has waited so far, and what it waits for now, if it waits.
func (w *Waits) Now() (all Totals, c Cause, waiting bool) {
	if w == nil {
		return all, 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

// now does the work of Now. w.mu is held.
func (w *Waits) now() (all Totals, c Cause, waiting bool) {
	w.charge()
	all = w.total
	c, waiting = w.current()
	if w.reader == nil {
		return all, c, waiting
	}
	read, of, reads := w.reader.Now()
	all.add(read, w.before)
	if !waiting {
		c, waiting = of, reads
	}
	return all, c, waiting
}
