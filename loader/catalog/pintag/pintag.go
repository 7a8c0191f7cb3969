// Package pintag keeps pinned snapshots from expiring while streams read them and for a time after
// that. To do so, it sets one tag for each pinned snapshot of each table. A tag expires by itself.
//
// A reader calls Hold before it reads a snapshot, and does not read it if Hold fails. All holders
// of a snapshot share one tag and wait for the same commit. While a snapshot is held, its tag is
// checked every keep/8. If less than 5/8 of keep remain, or if another program removed or shortened
// the tag, it is set again. If such a check fails, streams continue, because the snapshot exists as
// long as its tag does; the failure is reported, and the check is retried. This package never
// removes tags: other servers may need them, and they expire.
package pintag

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Fractions of Options.Keep.
const (
	lookPart   = 8 // a held tag is checked every keep/8
	renewTimes = 5 // and set again if less than 5/8 of keep remain
	minPart    = 2 // so at least keep/2 remains while checks succeed
)

// After a check that failed, the next check follows after firstWait. The wait doubles with each
// further failure, up to maxWait. It is never more than keep/waitPart, so that there are several
// retries before the tag expires.
const (
	firstWait = time.Minute
	maxWait   = time.Hour
	waitPart  = 32
)

// maxLooks is the maximum number of tags that are checked concurrently.
const maxLooks = 4

// tick is the interval at which Run looks for tags whose check is due.
const tick = time.Minute

// Options configure Tags.
type Options struct {
	// Keep is how long a snapshot is kept after its last holder released it.
	Keep time.Duration
	// Tag reads the tag of a table's pinned snapshot. If the tag does not last until least, or does
	// not exist, Tag sets it so that it lasts until wanted. It returns the time when the tag
	// expires.
	Tag func(ctx context.Context, t *catalog.Table, least, wanted time.Time) (time.Time, error)
	// Clock returns the current time.
	Clock func() time.Time
	// Observe is called after every check; nil observes nothing.
	Observe func(Look)
}

// Look is one check of a tag and its result.
type Look struct {
	Table    string
	Snapshot int64
	Renewal  bool // whether the check was made in the background, while streams read the snapshot
	// Until is the last known time at which the tag expires; zero if no tag is known.
	Until time.Time
	Err   error // nil if the tag lasts long enough
}

// Tags manages the tags of one catalog. It is safe for concurrent use.
type Tags struct {
	options Options

	mu   sync.Mutex
	tags map[tagOf]*tag
}

// tagOf identifies a tag.
type tagOf struct {
	name, uuid string
	snapshot   int64
}

// tag is the known state of a tag.
type tag struct {
	table   *catalog.Table // its name and pin
	holders int
	looked  time.Time // the last check that succeeded; zero if none did
	until   time.Time // when the tag expires, according to that check
	due     time.Time // when the next check is due
	failed  int       // number of checks since looked; all of them failed
	look    *look     // the running check; nil if there is none
}

// look is a running check. Other callers may wait for its result.
type look struct {
	done      chan struct{}
	err       error
	abandoned bool // whether the context of its caller ended, so that the result is unknown
}

// New returns Tags.
func New(o Options) *Tags { return &Tags{options: o, tags: map[tagOf]*tag{}} }

// Hold keeps the snapshot of a pinned table from expiring until it is released, and for
// Options.Keep after. A table without a snapshot needs no tag.
func (t *Tags) Hold(ctx context.Context, table *catalog.Table) (*release.Handle, error) {
	if table.Pin.Snapshot == dataset.NoSnapshot {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	one := t.enter(table)
	for known := t.fresh(one); !known; known = known || t.fresh(one) {
		var err error
		if known, err = t.look(ctx, one, false); err != nil {
			t.leave(one)
			return nil, err
		}
	}
	return release.New(func() { t.leave(one) }), nil
}

// enter adds a holder of a table's tag.
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

// leave removes a holder of a tag.
func (t *Tags) leave(one *tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.holders--
	t.forget()
}

// forget drops the state of tags that have no holder and that the next holder would have to check
// anyway. The caller has locked t.mu.
func (t *Tags) forget() {
	now := t.options.Clock()
	for of, one := range t.tags {
		if one.holders == 0 && !t.holds(one, now) {
			delete(t.tags, of)
		}
	}
}

// fresh reports whether a recent check found that a tag lasts long enough.
func (t *Tags) fresh(one *tag) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holds(one, t.options.Clock())
}

func (t *Tags) holds(one *tag, now time.Time) bool {
	keep := t.options.Keep
	return !one.looked.IsZero() && now.Before(one.looked.Add(keep/lookPart)) && !one.until.Before(now.Add(keep/minPart))
}

// look checks a tag, or waits for a check that is already running. It returns known = false without
// an error if the context of the caller that ran this check ended, so that the result is unknown.
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
	t.observe(one, renewal, until, mine.err)
	return true, mine.err
}

// backOff returns the wait before the next check, after the given number of earlier failures.
func (t *Tags) backOff(failed int) time.Duration {
	limit := min(maxWait, t.options.Keep/waitPart)
	wait := firstWait
	for range failed {
		if wait *= 2; wait >= limit {
			break
		}
	}
	return min(wait, limit)
}

// observe calls Options.Observe with a check.
func (t *Tags) observe(one *tag, renewal bool, until time.Time, err error) {
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

// Renew checks the held tags that are due.
func (t *Tags) Renew(ctx context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxLooks)
	for _, one := range t.due() {
		group.Go(func() error {
			_, _ = t.look(ctx, one, true) // Observe is called with the error
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
