package joined

import (
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// Options configures a Joins.
type Options struct {
	Scan SourceScan
	// Share creates a SharedReads, through which scans of one stream read stored bytes once; nil:
	// each scan reads its bytes separately.
	Share  func() SharedReads
	Budget *budget.Budget   // nil: unlimited
	Memory memory.Allocator // for staging rows and batches
	// Strategies holds the custom strategies, by the name that follows "custom:" in a
	// dataset's strategy.
	Strategies map[string]joiner.Custom
	// Disk creates a store on local disk for staging rows that do not fit in memory; nil: a join
	// whose rows do not fit fails as Exhausted.
	Disk func(what string) (spill.Store, error)
	// KeepBuildSides is the maximum number of bytes of build sides that stay in memory although no
	// stream needs them any more. They are released when a reservation lacks room. 0: such build
	// sides are released at once.
	KeepBuildSides int64

	cache      dataset.CacheUse // of scans
	cacheReads *plan.CacheReads // of scans
}

// caching returns options for scans that use the cache in the given way, and count in reads what
// they read from it.
func (o Options) caching(use dataset.CacheUse, reads *plan.CacheReads) Options {
	o.cache, o.cacheReads = use, reads
	return o
}

// Joins joins the rows of plans. Streams share its build sides. It is safe for
// concurrent use.
type Joins struct {
	options Options
	pool    *buildside.Pool
}

// New returns a Joins without build sides.
func New(o Options) *Joins {
	if o.Share == nil {
		o.Share = func() SharedReads { return separateReads{} }
	}
	return &Joins{options: o, pool: buildside.New(buildside.Options{Options: o.joining(), Disk: o.Disk, Keep: o.KeepBuildSides})}
}

// Kept returns the build sides that are kept for later streams.
func (j *Joins) Kept() cache.KeptStats { return j.pool.Kept() }

// DropKept releases all build sides that no stream needs, and returns their bytes.
func (j *Joins) DropKept() int64 { return j.pool.DropKept() }

// joining returns the options for package joiner.
func (o Options) joining() joiner.Options { return joiner.Options{Memory: o.Memory, Budget: o.Budget} }

// Custom returns the custom strategy that a field of a staging entry names. It returns nil if the
// field names a built-in strategy.
func (j *Joins) Custom(s dataset.Staging, field string) (joiner.Custom, error) {
	if !s.Strategy.Custom() {
		return nil, nil //nolint:nilnil // a built-in strategy
	}
	name := s.Custom
	if custom := j.options.Strategies[name]; custom != nil {
		return custom, nil
	}
	e := fault.InvalidField(field, "no strategy is registered as %q", name)
	e.Faults[0].Nearest = fault.Nearest(name, slices.Sorted(maps.Keys(j.options.Strategies)))
	return nil, e.WithRemedy("register it in the program that creates the server, or use another strategy")
}
