// Package waits counts how long a stream waits, and what for, and how long it works, and at what.
//
// A server makes a Waits for each stream and puts it into the stream's context. Whatever waits or works on behalf of the
// stream begins that with the context, and ends it. At any moment a stream does one thing: things at the same time count
// as the first of them in the order of Causes and then of Works. So the times of a stream never add up to more than the time
// for which it was open.
//
// Storage and deletes are special: goroutines that decode ahead wait for them while the stream does something else. Their
// waits count only while a goroutine waits for the rows that they decode. If none of them waits then, the stream decodes.
package waits

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Cause is what a stream spends time on: the cause of a wait, or a kind of work.
type Cause int

// The causes of waits.
const (
	Trainer Cause = iota // the client has not taken the last batch
	Network              // the connection to the client takes no more bytes, while a batch is sent
	Slot                 // max_streams are open
	Memory               // the budget has no room, or batches that other clients have not taken fill theirs
	Stream               // another stream reads what this one needs
	Deletes              // delete files of tables are opened and read
	Storage              // files of tables are opened and read
)

// The kinds of work.
const (
	Plan    Cause = Storage + 1 + iota // the query is planned, and the stream opened
	Spill                              // a build side that does not fit in memory is joined on local disk
	Decode                             // rows of files are decoded and filtered
	Build                              // rows are indexed by key for a join
	Compute                            // expressions are evaluated
	Join                               // rows are joined and cut into batches
	Send                               // batches are encoded and handed to the transport
)

// count is the number of causes and kinds of work.
const count = 14

// Causes returns all causes of waits. Of waits at the same time, the first one in this order counts.
func Causes() []Cause { return []Cause{Trainer, Network, Slot, Memory, Stream, Deletes, Storage} }

// Works returns all kinds of work. Of work at the same time, the first one in this order counts.
func Works() []Cause { return []Cause{Plan, Spill, Decode, Build, Compute, Join, Send} }

// String returns the name of a cause in answers and metrics.
func (c Cause) String() string {
	switch c {
	case Trainer:
		return "trainer"
	case Network:
		return "network"
	case Slot:
		return "slot"
	case Memory:
		return "memory"
	case Stream:
		return "stream"
	case Deletes:
		return "deletes"
	case Storage:
		return "storage"
	case Plan:
		return "plan"
	case Spill:
		return "spill"
	case Decode:
		return "decode"
	case Build:
		return "build"
	case Compute:
		return "compute"
	case Join:
		return "join"
	case Send:
		return "send"
	}
	return ""
}

// Totals is how long a stream has waited and worked, by cause and kind of work.
type Totals [count]time.Duration

// Of returns the time for one cause or kind of work.
func (t Totals) Of(c Cause) time.Duration { return t[c] }

// add adds the times of reading: those that a group's reader has for its streams.
func (t *Totals) add(to, from Totals) {
	for _, c := range readerCauses() {
		t[c] += to[c] - from[c]
	}
}

// readerCauses returns what the readers of groups may wait for and work at.
func readerCauses() []Cause {
	return []Cause{Memory, Stream, Deletes, Storage, Spill, Decode, Build, Compute, Join}
}

// readerWaits returns the causes for which the readers of groups may wait.
func readerWaits() []Cause { return []Cause{Memory, Stream, Deletes, Storage} }

// Waits is the waits of one stream, or of a reader that several streams share. It is safe for concurrent use. A nil *Waits
// counts nothing.
type Waits struct {
	clock func() time.Time

	mu     sync.Mutex
	active [count]int
	rows   int           // goroutines that wait for rows of a scan
	reader *Waits        // of the reader that the stream waits for; nil: none
	before Totals        // of reader, when the stream began to wait for it
	total  Totals        // up to since
	reads  Reads         // so far, without those of reader
	read   Reads         // of reader, when the stream began to wait for it
	idle   time.Duration // while reader is set: the time in which the stream itself waits for nothing
	since  time.Time

	blocked func() (all time.Duration, waits bool) // see Connected
	passed  time.Duration                          // what blocked returned last

	seen      Seen     // nil: not called
	followers []*Waits // those that are looked at, of the streams that wait for this reader
}

// Seen is called with a time for which a stream has waited, when the time is counted. It must not call the Waits.
type Seen func(c Cause, begin, end time.Time)

// Observe makes each time that is counted be passed to seen. It is called before the Waits are used.
func (w *Waits) Observe(seen Seen) { w.seen = seen }

// Connected makes times count as waits for the network in which the stream waits for its client, and its connection takes no
// bytes. The function blocked returns for how long the connection has taken none so far, and whether it takes none now. Connected is
// called before the Waits are used.
func (w *Waits) Connected(blocked func() (all time.Duration, waits bool)) { w.blocked = blocked }

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

// Begin begins a wait or work of a context's stream. The caller calls end once.
func Begin(ctx context.Context, c Cause) (end func()) { return Of(ctx).Begin(c) }

// Begin begins a wait or work. The caller calls end once.
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
	w.before, w.read = reader.follow(w, true)
	w.reader = reader
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.charge()
		before := w.total
		read, reads := reader.follow(w, false)
		w.addReader(&w.total, read)
		w.reads.add(reads, w.read)
		w.reader, w.idle = nil, 0
		if w.seen != nil { // it has seen each wait of the reader
			return
		}
		for _, c := range readerWaits() {
			if took := w.total[c] - before[c]; took > 0 {
				w.pass(c, w.since.Add(-took), w.since)
			}
		}
	}
}

// follow makes the waits of a reader be passed to a follower, or no longer, and returns what the reader has done so far.
func (w *Waits) follow(by *Waits, begins bool) (Totals, Reads) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, _, _ := w.now()
	reads := w.readsNow()
	switch {
	case by.seen == nil:
	case begins:
		w.followers = append(w.followers, by)
	default:
		w.followers = slices.DeleteFunc(w.followers, func(one *Waits) bool { return one == by })
	}
	return all, reads
}

// charge counts the time since the last change. While the stream waits for a reader, the work is first that of the reader. w.mu is held.
func (w *Waits) charge() {
	now, network := w.clock(), w.network()
	took := now.Sub(w.since)
	if took <= 0 {
		w.since = now
		return
	}
	switch c, waits := w.current(); {
	case waits && c == Trainer:
		from := now.Add(-min(network, took))
		w.spend(Trainer, from)
		w.spend(Network, now)
	case waits:
		w.spend(c, now)
	case w.reader != nil:
		w.idle += took
	default:
		if c, works := w.work(); works {
			w.total[c] += took
		}
	}
	w.since = now
}

// addReader adds what the reader has done, and to the stream's own work the time in which the reader did nothing that is known. w.mu is
// held.
func (w *Waits) addReader(all *Totals, read Totals) {
	all.add(read, w.before)
	rest := w.idle
	for _, c := range readerCauses() {
		rest -= read[c] - w.before[c]
	}
	if c, works := w.work(); works && rest > 0 {
		all[c] += rest
	}
}

// spend counts a wait from w.since on. w.mu is held.
func (w *Waits) spend(c Cause, end time.Time) {
	if took := end.Sub(w.since); took > 0 {
		w.total[c] += took
		w.show(c, end)
		w.since = end
	}
}

// network returns for how long the connection has taken no bytes since the last call. w.mu is held.
func (w *Waits) network() time.Duration {
	if w.blocked == nil {
		return 0
	}
	all, _ := w.blocked()
	took := all - w.passed
	w.passed = all
	return max(0, took)
}

// work returns the work of the stream itself. w.mu is held.
func (w *Waits) work() (c Cause, works bool) {
	for _, c := range Works() {
		if w.active[c] > 0 || c == Decode && w.rows > 0 {
			return c, true
		}
	}
	return 0, false
}

// show passes a wait that began at w.since to those that look. w.mu is held.
func (w *Waits) show(c Cause, end time.Time) {
	if w.seen != nil {
		w.seen(c, w.since, end)
	}
	if len(w.followers) > 0 && slices.Contains(readerWaits(), c) {
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
		if w.active[c] > 0 && (!ahead(c) || w.rows > 0) {
			return c, true
		}
	}
	return 0, false
}

// ahead reports whether goroutines that decode ahead wait for a cause.
func ahead(c Cause) bool { return c == Storage || c == Deletes }

// Now returns how long the stream has waited and worked so far, and what it waits for now, if it waits.
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
	if waiting && c == Trainer && w.blocked != nil {
		if _, blocked := w.blocked(); blocked {
			c = Network
		}
	}
	if w.reader == nil {
		return all, c, waiting
	}
	read, of, reads := w.reader.Now()
	w.addReader(&all, read)
	if !waiting {
		c, waiting = of, reads
	}
	return all, c, waiting
}
