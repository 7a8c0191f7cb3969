package buildside

import (
	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// Input is a staging input. It has everything from which build sides are made.
type Input struct {
	Name     string // the name in errors and of the files on local disk
	Plan     *plan.Plan
	Table    int // index of the staging table in the plan
	Spec     joiner.BuildSpec
	Identity string // a digest of everything that a build side depends on, except for its files
	// Coded has the field ids of columns that build sides in memory keep as codes if their values
	// repeat. Rows on local disk have values instead.
	Coded  []int
	Unkept bool // the stream neither uses build sides that are kept nor keeps any
	// Staging opens the rows of a source of the staging table, with the columns that Spec
	// describes.
	Staging func(source plan.Source) joiner.Input
	// Training opens the training rows of a range that reach the join, once more, for lookups
	// before the join. The rows have their key. If Spec has a time, the training time is their only
	// column.
	Training func(at plan.Range) joiner.Input
}

// Groups holds the file groups of a staging input for one stream. Only one goroutine uses it,
// except for the prefetches of its references.
type Groups struct {
	pool          *Pool
	input         Input
	partitionings map[int]*partitioning // by group
	coming        map[int]int           // by group: how many ranges the stream has declared and not reached yet
	open          map[int]*group        // the groups that have references or are needed by upcoming ranges
	costs         costs
}

// Groups returns the file groups of a stream's staging input. The caller declares the ranges that
// the stream will read (Expect), and closes the Groups.
func (p *Pool) Groups(in Input) *Groups {
	return &Groups{pool: p, input: in, partitionings: partitionings(in), coming: map[int]int{}, open: map[int]*group{}}
}

// Expect declares a range that the stream will read.
func (g *Groups) Expect(at plan.Range) { g.coming[g.numberOf(at)]++ }

// MarkReached reports that the stream has reached a range that it declared.
func (g *Groups) MarkReached(at plan.Range) { g.coming[g.numberOf(at)]-- }

// numberOf returns the number of the group that the rows of a range are joined with.
func (g *Groups) numberOf(at plan.Range) int {
	return g.input.Plan.Splits[at.Split].Groups[g.input.Table]
}

// maxPrefetch is the maximum size of a group that is prefetched, in bytes of files. The rows of the
// group must fit in memory together with the rows of the open ranges.
const maxPrefetch = 16 << 20

// ShouldPrefetch reports whether the group of a range should be prefetched. It should if no
// reference to the group exists, the group is small, and memory is plentiful. others is the size,
// in bytes of files, of the groups that are being prefetched already.
func (g *Groups) ShouldPrefetch(at plan.Range, others int64) bool {
	number := g.numberOf(at)
	if one := g.open[number]; one != nil && one.references > 0 {
		return false
	}
	return g.fits(number, others)
}

// fits reports whether a group is small, and memory is plentiful for this group and for others
// bytes of other groups.
func (g *Groups) fits(number int, others int64) bool {
	size, b := g.bytes(number), g.pool.options.Budget
	return size <= maxPrefetch && (b == nil || b.InUse()+8*(size+others) < b.Limit()/2)
}

// bytes returns the stored size of a group's files.
func (g *Groups) bytes(number int) int64 {
	return g.input.Plan.Staging[g.input.Table].Group(number).Bytes
}

// Continue continues the costs of the closed Groups that the stream had for the same input
// before it was parked.
func (g *Groups) Continue(earlier *Groups) { g.costs.follow(&earlier.costs) }

// Take adds the costs of another stream's Groups for the same input. They count as this stream's
// own costs if own is set, otherwise as shared costs.
func (g *Groups) Take(more Costs, own bool) { g.costs.take(more, own) }

// Costs returns the costs so far.
func (g *Groups) Costs() Costs { return g.costs.sum() }

// Close ends the stream's need of all groups. The caller releases all references before.
func (g *Groups) Close() {
	for _, one := range g.open {
		one.close()
	}
}

// group is one file group as one stream uses it. It is in Groups.open while it has references or an
// upcoming range needs it.
type group struct {
	*Groups
	number        int
	source        plan.Source
	memory        int64 // the expected size of its rows in memory
	partitioning  *partitioning
	need          *cache.Need[buildSide]
	references    int
	prefetch      *prefetch // nil: no prefetch is running, and there is no result of a prefetch to be taken
	builtInMemory bool      // this stream has built the group in memory; a second build then goes to disk. Only the running build uses it
}

// group returns the group of a range.
func (g *Groups) group(at plan.Range) *group {
	number := g.numberOf(at)
	if one := g.open[number]; one != nil {
		return one
	}
	in := g.input
	one := &group{
		Groups: g, number: number, source: in.Plan.Group(in.Table, number),
		memory: in.Plan.Staging[in.Table].Group(number).Memory(), partitioning: g.partitionings[number],
	}
	one.need = g.pool.shared.Need(one.id())
	g.open[number] = one
	return one
}

// close ends the stream's need of the group.
func (g *group) close() {
	delete(g.open, g.number)
	closeNeed(g.need, g.input.Unkept)
}

// closeNeed closes the need of a build side.
func closeNeed(n *cache.Need[buildSide], unkept bool) {
	if unkept {
		n.CloseUnkept()
	} else {
		n.Close()
	}
}

// groupID holds everything that the build side of a file group depends on.
type groupID struct {
	input        string
	partitioning partitioningID // zero if the group cannot be partitioned; streams that partition the group differently do not share its build side
	unkept       bool           // streams that do not use kept build sides share build sides only among themselves
	files        []fileID
}

// fileID identifies rows [from, to) of a file.
type fileID struct {
	location string
	from, to int64
}

// partitioningID identifies how a group would be partitioned.
type partitioningID struct{ key, of int }

// partitionID holds everything that the build side of a partition depends on.
type partitionID struct {
	group  string
	number int
}

func (g *group) id() string {
	id := groupID{input: g.input.Identity, unkept: g.input.Unkept}
	if p := g.partitioning; g.divisible() {
		id.partitioning = partitioningID{key: p.key, of: p.of}
	}
	for _, f := range g.source.Files {
		id.files = append(id.files, fileID{location: f.File.Location, from: f.From, to: f.To})
	}
	return digest.Of(id)
}
