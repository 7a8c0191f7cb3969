package buildside

import (
	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
)

// Options configure a Pool.
type Options struct {
	joiner.Options
	// Disk opens a store on local disk. Its argument what names the contents of the store in
	// errors. If Disk is nil, rows that do not fit in memory fail as Exhausted.
	Disk func(what string) (spill.Store, error)
	// Keep is the maximum number of bytes of build sides that stay in memory although no stream
	// needs them any more. They are released when a reservation lacks room. 0: such build sides are
	// released at once.
	Keep int64
}

// Pool holds the build sides that the streams of a loader share. It is safe for
// concurrent use.
type Pool struct {
	options Options
	shared  *cache.Shared[buildSide]
}

// New returns a Pool. Its idle build sides are evicted when its budget is short of memory.
func New(o Options) *Pool {
	return &Pool{options: o, shared: cache.NewKeeping[buildSide](o.Budget, o.Keep)}
}

// Kept returns the build sides that are kept for later streams.
func (p *Pool) Kept() cache.KeptStats { return p.shared.Stats() }

// DropKept releases all build sides that no stream needs, and returns their bytes.
func (p *Pool) DropKept() int64 { return p.shared.Drop() }

// rowsDivisor determines how much memory build sides leave free for the rows of joins: the limit of
// the budget divided by rowsDivisor. This applies only if build sides can be written to disk
// instead, since the rows of joins cannot.
const rowsDivisor = 8

// inMemory returns the options for build sides in memory.
func (p *Pool) inMemory() joiner.Options {
	o := p.options.Options
	if limit := o.Budget.Limit(); p.options.Disk != nil && limit >= 0 {
		o.Spare = limit / rowsDivisor
	}
	return o
}

// fits reports whether a build side of the given size may fit in memory.
func (p *Pool) fits(bytes int64) bool {
	limit := p.options.Budget.Limit()
	return limit < 0 || bytes <= limit-p.inMemory().Spare
}

// onDisk returns the options for rows on local disk, given the expected size of these rows in
// memory.
func (p *Pool) onDisk(bytes int64) spill.Options {
	return spill.Options{Options: p.options.Options, Disk: p.options.Disk, ExpectedBytes: bytes}
}

// buildSide is one of
//   - *joiner.BuildSide: the rows of a file group, or of one partition, in memory;
//   - *spill.Sliced: the same on local disk;
//   - *spill.Partitions: the rows of a group on local disk, partitioned.
type buildSide struct {
	refCounted
	size func() cache.Size
	unit *trace.Work // how it was built; nil: it is not recorded
}

// refCounted is a reference-counted value.
type refCounted interface {
	Retain()
	Release()
}

// Size returns approximately how many bytes the last Release frees.
func (b buildSide) Size() cache.Size { return b.size() }

func inMemory(s *joiner.BuildSide) buildSide {
	return buildSide{refCounted: s, size: func() cache.Size { return cache.Size{Memory: max(1, s.Bytes())} }}
}

func sliced(s *spill.Sliced) buildSide { return onDisk(s, s.Bytes()) }

func partitioned(p *spill.Partitions) buildSide {
	return onDisk(p, p.Bytes())
}

func onDisk(s refCounted, bytes int64) buildSide {
	return buildSide{refCounted: s, size: func() cache.Size { return cache.Size{Disk: max(1, bytes)} }}
}
