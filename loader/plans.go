package loader

import (
	"context"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Plans is a cache of plans, and of the column sizes that explain texts contain. The keys of the
// cache cover everything that the plans and the sizes depend on, including the pins, so the cached
// values never become stale. A nil *Plans caches nothing.
type Plans struct {
	cache *cache.Cache[*plan.Plan]
	sizes *cache.Cache[*plan.ColumnSizes]
}

// The cached column sizes may take 1/sizesShare of the limit.
const sizesShare = 8

// NewPlans returns a cache of plans that may hold about limit bytes.
func NewPlans(limit int64) (*Plans, error) {
	plans, err := cache.New[*plan.Plan](limit - limit/sizesShare)
	if err != nil {
		return nil, err
	}
	sizes, err := cache.New[*plan.ColumnSizes](limit / sizesShare)
	if err != nil {
		plans.Close()
		return nil, err
	}
	return &Plans{cache: plans, sizes: sizes}, nil
}

// Close stops the goroutines of the caches.
func (p *Plans) Close() {
	p.cache.Close()
	p.sizes.Close()
}

func (p *Plans) get(ctx context.Context, key string, build func(context.Context) (*plan.Plan, error)) (*plan.Plan, error) {
	if p == nil {
		return build(ctx)
	}
	return p.cache.Get(ctx, key, func(ctx context.Context) (*plan.Plan, int64, error) {
		built, err := build(ctx)
		if err != nil {
			return nil, 0, err
		}
		return built, planBytes(built), nil
	})
}

// sizesOf returns the sizes of the columns that a plan reads.
func (p *Plans) sizesOf(ctx context.Context, of *plan.Plan, find func(context.Context) (*plan.ColumnSizes, error)) (*plan.ColumnSizes, error) {
	if p == nil {
		return find(ctx)
	}
	key := digest.Of(sizesInputs{files: of.FilesID, training: of.Planned.Training, staging: of.Planned.Staging})
	return p.sizes.Get(ctx, key, func(ctx context.Context) (*plan.ColumnSizes, int64, error) {
		found, err := find(ctx)
		if err != nil {
			return nil, 0, err
		}
		return found, sizesBytes(found), nil
	})
}

// sizesInputs holds everything that column sizes depend on.
type sizesInputs struct {
	files    string
	training []int // field ids
	staging  [][]int
}

// sizesBytes estimates the memory of column sizes.
func sizesBytes(s *plan.ColumnSizes) int64 {
	n := int64(bytesOfPlan)
	if s != nil {
		n += int64(len(s.Training)) * bytesOfSize
		for _, of := range s.Staging {
			n += int64(len(of)) * bytesOfSize
		}
	}
	return n
}

// planInputs holds everything that a plan depends on. It includes the columns, since a plan may be
// refused because one of its columns cannot be read.
type planInputs struct {
	name string // of the dataset, which explain prints
	rows string // digest of the query's rows, with the digest of the dataset and the pins of all tables
	// algorithm is the version of the plan's rules.
	algorithm int
	columns   dataset.Selection
	// withheld has the columns that the client may not read. It matters because a query without
	// column names reads all columns that the client may read.
	withheld []string
	entries  listedEntries
	promoted []string // the entries whose values are read from the training table
}

// planKey returns the cache key of a query whose defaults are set.
func planKey(r *resolve.Relation, q dataset.Query, of listedEntries) string {
	rows := q.Rows
	rows.Dataset, rows.Inline, rows.Pin = r.Dataset.Digest(), nil, r.Pin()
	rows.With = nil
	return digest.Of(planInputs{name: r.Dataset.Name, rows: rows.Digest(), algorithm: plan.AlgorithmOf(q), columns: q.Selection(), withheld: r.Withheld(), entries: of, promoted: r.PromotedEntries()})
}

// Estimated sizes of the parts of a plan in bytes, including everything that the parts refer to.
const (
	bytesOfPlan   = 600
	bytesOfFile   = 600 // with its location and partition values
	bytesOfSize   = 250 // of the column sizes of a file, with the file's location
	bytesOfRange  = 120 // of one range of a lane
	bytesOfRanges = 200 // the map of a file's value ranges
	bytesOfValues = 180 // the value range of one column
)

// planBytes estimates the memory of a plan.
func planBytes(p *plan.Plan) int64 {
	n := int64(bytesOfPlan)
	for _, s := range p.Splits {
		for i := range s.Files {
			n += fileBytes(&s.Files[i].File)
		}
	}
	for _, s := range p.Staging {
		for _, g := range s.Groups {
			for i := range g.Files {
				n += fileBytes(&g.Files[i])
			}
		}
	}
	for _, l := range p.Lanes {
		n += int64(len(l.Ranges)) * bytesOfRange
	}
	return n + int64(p.DeleteFiles())*bytesOfFile
}

func fileBytes(f *catalog.File) int64 {
	if len(f.Ranges) == 0 {
		return bytesOfFile
	}
	return bytesOfFile + bytesOfRanges + bytesOfValues*int64(len(f.Ranges))
}
