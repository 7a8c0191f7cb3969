package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/tags"
	"github.com/penstock/penstock/loader/catalog/pintag"
	"github.com/penstock/penstock/loader/dataset"
)

// tagged is a catalog that adds tags to the snapshots that streams read, so that these snapshots do
// not expire.
type tagged struct {
	*icebergcat.Catalog
	*pintag.Tags
}

var _ catalog.Holder = tagged{}

// withTags returns a catalog that tags the snapshots that streams read, if the catalog's block in
// the config file sets `pin_tags`. Otherwise it returns the catalog unchanged.
func (t *Tables) withTags(one *icebergcat.Catalog, o dataset.Catalog) (catalog.Catalog, error) {
	if o.PinTags == 0 {
		return one, nil
	}
	if err := one.Tags(); err != nil {
		return nil, err
	}
	tags := pintag.New(pintag.Options{
		Keep: o.PinTags, Clock: clock.Now,
		Tag: func(ctx context.Context, of *catalog.Table, least, wanted time.Time) (time.Time, error) {
			until, err := one.Tag(ctx, of, tags.Until{Least: least, Wanted: wanted})
			return until, fault.Op(err, "keep snapshot %d of table %s", of.Pin.Snapshot, of.Name)
		},
		Observe: func(l pintag.Look) {
			if observe := t.looks.Load(); observe != nil {
				(*observe)(l)
			}
		},
	})
	t.tags = append(t.tags, tags)
	return tagged{one, tags}, nil
}

// renewTags starts goroutines that renew the tags of running streams. The function end stops the
// goroutines and waits for them.
func (t *Tables) renewTags(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, tags := range t.tags {
		running.Go(func() { tags.Run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// tagLooks returns a function that counts checks of tags in metrics, and logs failures to renew a
// tag. Other failures need no log, because the client that sent the query receives them.
func tagLooks(metrics *telemetry.Metrics, log *slog.Logger) func(pintag.Look) {
	count := metrics.PinTags()
	return func(l pintag.Look) {
		count(l)
		if l.Err != nil && l.Renewal {
			log.Warn("the tag of a snapshot could not be renewed", "table", l.Table, "snapshot", l.Snapshot, "until", l.Until, "error", l.Err)
		}
	}
}
