package buildside

import (
	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
)

// Options are what a Pool works with.
type Options struct {
	joiner.Options
	// Disk makes a store on local disk for what is named; nil: rows that do not
	// fit in memory are Exhausted.
	Disk func(what string) (spill.Store, error)
}

// Pool holds the build sides that the streams of a loader have in common. It
// is safe for concurrent use.
type Pool struct {
	options Options
	shared  *cache.Shared[built]
}

// New makes a Pool, which lets its budget have what nobody uses.
func New(o Options) *Pool { return &Pool{options: o, shared: cache.NewShared[built](o.Budget)} }

// spareShare is the part of the budget, as 1/spareShare, that build sides leave to
// the rows that they are joined with, where they may go to disk instead: rows have
// nowhere else to go.
const spareShare = 8

// inMemory is the options for build sides in memory.
func (p *Pool) inMemory() joiner.Options {
	o := p.options.Options
	if limit := o.Budget.Limit(); p.options.Disk != nil && limit >= 0 {
		o.Spare = limit / spareShare
	}
	return o
}

// holds says whether so many bytes of a build side may fit in memory.
func (p *Pool) holds(bytes int64) bool {
	limit := p.options.Budget.Limit()
	return limit < 0 || bytes <= limit-p.inMemory().Spare
}

// spilling is the options for rows on local disk that are expected to take so
// many bytes in memory.
func (p *Pool) spilling(bytes int64) spill.Options {
	return spill.Options{Options: p.options.Options, Disk: p.options.Disk, ExpectedBytes: bytes}
}

// built is one of
//   - *joiner.BuildSide: the rows of a file group, or of its part, in memory;
//   - *spill.Sliced: the same on local disk;
//   - *spill.Parts: the rows of a group on local disk, divided into parts.
type built struct {
	counted
	size cache.Size
}

// counted is a value that is counted by reference.
type counted interface {
	Retain()
	Release()
}

// Size is what giving the value up frees, about.
func (b built) Size() cache.Size { return b.size }

func inMemory(s *joiner.BuildSide) built { return built{s, cache.Size{Memory: max(1, s.Bytes())}} }
func sliced(s *spill.Sliced) built       { return built{s, cache.Size{Disk: max(1, s.Bytes())}} }
func divided(p *spill.Parts) built       { return built{p, cache.Size{Disk: max(1, p.Bytes())}} }
