package buildside

import (
	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// Input says what the build sides of a staging input are made of. Whatever two
// streams may differ in, beside the files of a group, is in Identity.
type Input struct {
	Name     string // in errors, and of what lies on local disk
	Plan     *plan.Plan
	Table    int // index of the staging table in the plan
	Spec     joiner.BuildSpec
	Identity string // a digest
	// Staging opens the rows of a source of the staging table, as Spec has them.
	Staging func(source plan.Source) joiner.Input
	// Training opens the training rows of a range that reach the join once more,
	// with their key and, if Spec has a time, that as the one column.
	Training func(at plan.Range) joiner.Input
}

// Groups are the file groups of a staging input as one stream uses them. It is
// used by one goroutine, save what its references build ahead.
type Groups struct {
	pool      *Pool
	input     Input
	divisions map[int]*division // by group
	coming    map[int]int       // by group: ranges of the stream that have not begun
	open      map[int]*group    // those that the stream uses, or will use again
	costs     costs
}

// Groups returns the file groups of a stream's staging input. The caller says
// which ranges it will read (Coming), and closes what it gets.
func (p *Pool) Groups(in Input) *Groups {
	return &Groups{pool: p, input: in, divisions: divisions(in), coming: map[int]int{}, open: map[int]*group{}}
}

// Coming says that the stream will read a range.
func (g *Groups) Coming(at plan.Range) { g.coming[g.number(at)]++ }

// Begun says that the stream has come to a range.
func (g *Groups) Begun(at plan.Range) { g.coming[g.number(at)]-- }

// number returns which group the rows of a range match.
func (g *Groups) number(at plan.Range) int {
	return g.input.Plan.Splits[at.Split].Groups[g.input.Table]
}

// smallGroup bounds the groups that are read before they are needed, in bytes of
// files: their rows must fit beside those of the open ranges.
const smallGroup = 16 << 20

// Ahead says whether the build side of a range should be built before a row
// asks for it: if no lane uses its group, the group is small, and memory is
// plentiful. Others that are being built ahead are of so many bytes of files.
func (g *Groups) Ahead(at plan.Range, others int64) bool {
	number := g.number(at)
	if one := g.open[number]; one != nil && one.references > 0 {
		return false
	}
	return g.fits(number, others)
}

// fits says whether a group is small, and memory plentiful, for it and for others.
func (g *Groups) fits(number int, others int64) bool {
	size, b := g.bytes(number), g.pool.options.Budget
	return size <= smallGroup && (b == nil || b.Used()+8*(size+others) < b.Limit()/2)
}

// bytes is what the files of a group take, as stored.
func (g *Groups) bytes(number int) int64 {
	return g.input.Plan.Staging[g.input.Table].Group(number).Bytes
}

// Follow takes over what earlier groups of the same input counted, which are
// closed: those of the stream before it was parked.
func (g *Groups) Follow(earlier *Groups) { g.costs.follow(&earlier.costs) }

// Costs returns what the groups cost so far.
func (g *Groups) Costs() Costs { return g.costs.sum() }

// Close ends the stream's need of the groups that it would have used again. All
// references have been released.
func (g *Groups) Close() {
	for _, one := range g.open {
		one.done()
	}
}

// group is one file group as a stream uses it. It is among the open ones of its
// Groups while a reference to it is held, or a range to come needs it.
type group struct {
	*Groups
	of         int // its number
	source     plan.Source
	memory     int64 // that its rows are expected to take
	division   *division
	need       *cache.Need[built]
	references int
	begun      int    // of them: of open ranges
	ahead      *ahead // what the stream builds ahead of it; nil if nothing
	gaveWay    bool   // the stream has built it in memory: if it is built again, it had to give way. Used under the need's turn
}

// group returns the group that a range needs.
func (g *Groups) group(at plan.Range) *group {
	number := g.number(at)
	if one := g.open[number]; one != nil {
		return one
	}
	in := g.input
	one := &group{
		Groups: g, of: number, source: in.Plan.Group(in.Table, number),
		memory: in.Plan.Staging[in.Table].Group(number).Memory(), division: g.divisions[number],
	}
	one.need = g.pool.shared.Need(one.key())
	g.open[number] = one
	return one
}

// done ends the stream's need of the group.
func (g *group) done() {
	delete(g.open, g.of)
	g.need.Done()
}

// groupOf is all that the build side of a file group is made of.
type groupOf struct {
	input    string
	division parting // zero if it cannot be divided: streams that would divide it otherwise share nothing
	files    []rowsOf
}

// rowsOf is rows [from, to) of a file.
type rowsOf struct {
	location string
	from, to int64
}

// parting is how a group would be divided.
type parting struct{ key, of int }

// partOf is all that the build side of a part of a divided group is made of.
type partOf struct {
	group string
	part  int
}

func (g *group) key() string {
	of := groupOf{input: g.input.Identity}
	if d := g.division; g.divisible() {
		of.division = parting{key: d.key, of: d.of}
	}
	for _, f := range g.source.Files {
		of.files = append(of.files, rowsOf{location: f.File.Location, from: f.From, to: f.To})
	}
	return digest.Of(of)
}
