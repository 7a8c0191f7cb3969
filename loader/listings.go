package loader

import (
	"context"
	"slices"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Listings is a cache of the lists of files of pinned tables. Without it, each plan would list them
// again, even if only the seed, the epoch or the filter differs. The files of a snapshot never
// change. Each plan pins its tables before it lists their files, so it notices that a table or a
// snapshot no longer exists even if its files are in the cache. A nil *Listings caches nothing.
type Listings struct {
	cache   *cache.Cache[[]catalog.File]
	lacking *cache.Cache[bool] // by table, pin and columns: whether a file may lack one of the columns
}

// lackingDivisor determines the memory of Listings.lacking: the limit of Listings.cache divided by
// lackingDivisor, in addition to that limit.
const lackingDivisor = 64

// NewListings returns a cache that may hold about limit bytes of lists of files.
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

// Close stops the goroutines of the caches.
func (l *Listings) Close() {
	l.cache.Close()
	l.lacking.Close()
}

// listingInputs holds everything that determines the list of files of a table.
type listingInputs struct {
	table           string
	pin             dataset.TablePin
	columns, ranges []int
}

// bytesOfDelete is the estimated size of a delete file, or of a group of them, that applies to a file.
const bytesOfDelete = 300

// get returns the files of a pinned table, from the cache or from list. Tables that have files
// without sequence numbers are listed each time: such files are ordered by earlier snapshots, and
// these may expire.
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
