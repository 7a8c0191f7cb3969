package buildside

import (
	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
)

// Options configure a Pool.
type Options struct {
	joiner.Options
	// Disk opens a store on local disk; what names its contents in errors. If Disk is
	// nil, rows that do not fit in memory fail as Exhausted.
	Disk func(what string) (spill.Store, error)
	// Keep is how many bytes of build sides in memory are kept when no stream needs them any more,
	// until a reservation lacks room; 0: none.
	Keep int64
}

// Pool holds the build sides that the streams of a loader share. It is safe for
// concurrent use.
type Pool struct {
	options Options
	shared  *cache.Shared[buildSide]
}

// New makes a Pool, whose idle build sides are evicted under pressure on its budget.
func New(o Options) *Pool {
	return &Pool{options: o, shared: cache.NewKeeping[buildSide](o.Budget, o.Keep)}
}

// Kept returns the build sides that are kept for later streams.
func (p *Pool) Kept() cache.KeptStats { return p.shared.Stats() }

// DropKept releases all build sides that no stream needs, and returns their bytes.
func (p *Pool) DropKept() int64 { return p.shared.Drop() }

// rowsDivisor is the divisor of the budget that gives the bytes that build sides leave
// free for the rows of the join, if build sides can go to disk instead: rows cannot.
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

// onDisk returns the options for rows on local disk that are expected to take the given
// bytes in memory.
func (p *Pool) onDisk(bytes int64) spill.Options {
	return spill.Options{Options: p.options.Options, Disk: p.options.Disk, ExpectedBytes: bytes}
}

// buildSide is one of
//   - *joiner.BuildSide: the rows of a file group, or of one partition, in memory;
//   - *spill.Sliced: the same on local disk;
//   - *spill.Parts: the rows of a group on local disk, partitioned.
type buildSide struct {
	refCounted
	size func() cache.Size
}

// refCounted is a reference-counted value.
type refCounted interface {
	Retain()
	Release()
}

// Size returns about what the last Release frees.
func (b buildSide) Size() cache.Size { return b.size() }

func inMemory(s *joiner.BuildSide) buildSide {
	return buildSide{s, func() cache.Size { return cache.Size{Memory: max(1, s.Bytes())} }}
}

func sliced(s *spill.Sliced) buildSide { return onDisk(s, s.Bytes()) }

func partitioned(p *spill.Partitions) buildSide {
	return onDisk(p, p.Bytes())
}

func onDisk(s refCounted, bytes int64) buildSide {
	return buildSide{s, func() cache.Size { return cache.Size{Disk: max(1, bytes)} }}
}
