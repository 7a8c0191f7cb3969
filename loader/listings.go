package loader

import (
	"context"
	"slices"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Listings is a cache of the files of pinned tables, which are listed for each plan: of each seed, epoch and
// filter. What a snapshot has is immutable, and a plan has pinned its tables before it lists them, so that a
// snapshot or a table that is gone is noticed all the same. A nil *Listings caches nothing.
type Listings struct {
	cache   *cache.Cache[[]catalog.File]
	lacking *cache.Cache[bool] // by table, pin and columns: whether a file may lack one of the columns
}

// lackingDivisor is the share of the cache's memory, in addition to it, that Listings.lacking may hold.
const lackingDivisor = 64

// NewListings returns a cache of files that may hold about limit bytes.
func NewListings(limit int64) (*Listings, error) {
	c, err := cache.New[[]catalog.File](limit)
	if err != nil {
		return nil, err
	}
	lacking, err := cache.New[bool](limit / lackingDivisor)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Listings{cache: c, lacking: lacking}, nil
}

// Close stops the goroutines of the cache.
func (l *Listings) Close() {
	l.cache.Close()
	l.lacking.Close()
}

// listingInputs holds everything that the files of a table depend on.
type listingInputs struct {
	table           string
	pin             dataset.TablePin
	columns, ranges []int
}

// bytesOfDelete is the estimated size of a delete file, or of a group of them, that applies to a file.
const bytesOfDelete = 300

// get returns the files of a pinned table, from the cache or from list. Files without sequence numbers are ordered
// by what is known of earlier snapshots, which may expire, so that they are listed each time.
func (l *Listings) get(ctx context.Context, of listingInputs, list func(context.Context) ([]catalog.File, error)) ([]catalog.File, error) {
	if l == nil {
		return list(ctx)
	}
	key := digest.Of(of)
	files, err := l.cache.Get(ctx, key, func(ctx context.Context) ([]catalog.File, int64, error) {
		files, err := list(ctx)
		bytes := int64(bytesOfPlan)
		for i := range files {
			deletes := files[i].Deletes
			bytes += fileBytes(&files[i]) + int64(len(deletes.Positions)+len(deletes.Equality))*bytesOfDelete
		}
		return files, bytes, err
	})
	if slices.ContainsFunc(files, func(f catalog.File) bool { return f.Snapshot != 0 }) {
		l.cache.Forget(key)
	}
	return files, err
}
