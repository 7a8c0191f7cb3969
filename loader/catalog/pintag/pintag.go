// Package pintag keeps pinned snapshots for as long as streams read them, and a while
// longer: by a tag for each snapshot of each table, that ends by itself.
//
// Whoever begins to read holds the snapshot first, and reads nothing if that fails. All who
// hold the same one share a tag, and wait for one commit together. While somebody holds it,
// it is looked at eight times in the time that it is kept for, and set anew before less
// than half of that time is left: so others who shorten or remove it are noticed. A look
// that fails ends no stream, as the snapshot is there for as long as the tag holds: it is
// told, and tried again. Nobody removes a tag: other servers may need it, and it ends.
package pintag

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// The parts of the time that a snapshot is kept for.
const (
	lookPart   = 8 // a tag that is held is looked at once in 1/8 of it
	renewTimes = 5 // and set anew where less than 5/8 are left at the look
	leastPart  = 2 // so that never less than 1/2 is left while looks succeed
)

// How long after a look that failed the next one is: at first, and at the most, and never
// so long that the tag ends before some of them.
const (
	firstWait = time.Minute
	mostWait  = time.Hour
	waitPart  = 32
)

// looksAtOnce bounds the tags that are looked at side by side.
const looksAtOnce = 4

// tick is how often it is seen whether a look is due.
const tick = time.Minute

// Options are what Tags are made of.
type Options struct {
	// Keep is for how long a snapshot is kept after somebody last held it.
	Keep time.Duration
	// Tag sees to it that the tag of a table's pinned snapshot holds until least; one that
	// does not is set to hold until wanted. It returns until when the tag holds.
	Tag func(ctx context.Context, t *catalog.Table, least, wanted time.Time) (time.Time, error)
	// Clock is the time.
	Clock func() time.Time
	// Observe is told of every look when it has ended; nil: nobody is.
	Observe func(Look)
}

// Look is one look at a tag, and what it found or did.
type Look struct {
	Table    string
	Snapshot int64
	Renewal  bool // nobody waited for it
	// Until is when the tag ends, as far as is known; zero: there is none that is known.
	Until time.Time
	Err   error // nil: the tag holds for long enough
}

// Tags are those of one catalog. They are safe for concurrent use.
type Tags struct {
	options Options

	mu   sync.Mutex
	tags map[tagOf]*tag
}

// tagOf is what a tag is for.
type tagOf struct {
	name, uuid string
	snapshot   int64
}

// tag is what is known of one.
type tag struct {
	table   *catalog.Table // its name and pin
	holders int
	looked  time.Time // when it was last found, or made, to hold; zero: never
	until   time.Time // when it ends, by that look
	due     time.Time // when it is to be looked at again
	failed  int       // looks since, which all failed
	look    *look     // that runs; nil: none
}

// look is one that runs, and that others wait for.
type look struct {
	done      chan struct{}
	err       error
	abandoned bool // its asker left, and nobody knows
}

// New makes Tags.
func New(o Options) *Tags { return &Tags{options: o, tags: map[tagOf]*tag{}} }

// Hold sees to it that the snapshot of a pinned table does not expire before it is
// released, and for some time after. A table without a snapshot needs nothing.
func (t *Tags) Hold(ctx context.Context, table *catalog.Table) (release func(), err error) {
	if table.Pin.Snapshot == dataset.NoSnapshot {
		return func() {}, nil
	}
	one := t.enter(table)
	for known := t.fresh(one); !known; known = known || t.fresh(one) {
		if known, err = t.look(ctx, one, false); err != nil {
			t.leave(one)
			return nil, err
		}
	}
	var once sync.Once
	return func() { once.Do(func() { t.leave(one) }) }, nil
}

// enter counts a holder.
func (t *Tags) enter(table *catalog.Table) *tag {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := tagOf{name: table.Name, uuid: table.Pin.UUID, snapshot: table.Pin.Snapshot}
	one := t.tags[of]
	if one == nil {
		one = &tag{table: &catalog.Table{Name: table.Name, Pin: table.Pin}}
		t.tags[of] = one
	}
	one.holders++
	return one
}

// leave forgets a holder, and tags that nobody holds once they are to be looked at again.
func (t *Tags) leave(one *tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.holders--
	t.forget()
}

// forget drops what nobody holds and what is not known well enough to be of use to the next
// holder; t.mu is held.
func (t *Tags) forget() {
	now := t.options.Clock()
	for of, one := range t.tags {
		if one.holders == 0 && !t.holds(one, now) {
			delete(t.tags, of)
		}
	}
}

// fresh says whether a tag is known to hold for long enough.
func (t *Tags) fresh(one *tag) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holds(one, t.options.Clock())
}

func (t *Tags) holds(one *tag, now time.Time) bool {
	keep := t.options.Keep
	return !one.looked.IsZero() && now.Before(one.looked.Add(keep/lookPart)) && !one.until.Before(now.Add(keep/leastPart))
}

// look looks at a tag, or waits for a look that runs. Known is false where that one's asker
// has left before it ended.
func (t *Tags) look(ctx context.Context, one *tag, renewal bool) (known bool, err error) {
	t.mu.Lock()
	if running := one.look; running != nil {
		t.mu.Unlock()
		select {
		case <-running.done:
			if running.abandoned {
				return false, nil
			}
			return true, running.err
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	mine := &look{done: make(chan struct{})}
	one.look = mine
	t.mu.Unlock()

	now, keep := t.options.Clock(), t.options.Keep
	var until time.Time
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.abandoned = ctx.Err() != nil; mine.err == nil {
			one.looked, one.until, one.due, one.failed = now, until, now.Add(keep/lookPart), 0
		} else if !mine.abandoned {
			one.due = now.Add(t.backOff(one.failed))
			one.failed++
		}
		one.look = nil
		close(mine.done)
	}()
	until, mine.err = t.options.Tag(ctx, one.table, now.Add(keep/lookPart*renewTimes), now.Add(keep))
	t.tell(one, renewal, until, mine.err)
	return true, mine.err
}

// backOff is how long after a look that failed the next one is due.
func (t *Tags) backOff(failed int) time.Duration {
	most := min(mostWait, t.options.Keep/waitPart)
	wait := firstWait
	for range failed {
		if wait *= 2; wait >= most {
			break
		}
	}
	return min(wait, most)
}

// tell says what a look came to.
func (t *Tags) tell(one *tag, renewal bool, until time.Time, err error) {
	if t.options.Observe == nil {
		return
	}
	if err != nil {
		t.mu.Lock()
		until = one.until
		t.mu.Unlock()
	}
	t.options.Observe(Look{Table: one.table.Name, Snapshot: one.table.Pin.Snapshot, Renewal: renewal, Until: until, Err: err})
}

// Renew looks at the tags that somebody holds and that are to be looked at.
func (t *Tags) Renew(ctx context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(looksAtOnce)
	for _, one := range t.due() {
		group.Go(func() error {
			_, _ = t.look(ctx, one, true) // it has been told
			return nil
		})
	}
	_ = group.Wait()
}

func (t *Tags) due() []*tag {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget()
	now := t.options.Clock()
	var out []*tag
	for _, one := range t.tags {
		if one.holders > 0 && !one.due.IsZero() && !now.Before(one.due) {
			out = append(out, one)
		}
	}
	return out
}

// Run renews until the context ends.
func (t *Tags) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.Renew(ctx)
		case <-ctx.Done():
			return
		}
	}
}
