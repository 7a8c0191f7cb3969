package main

import (
	"strconv"

	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// limits are how much the caches of a replica keep, in bytes as stored in files.
type limits struct{ columns, sides int64 }

// replica is one server: its caches, and what it has read since they were last cleared.
type replica struct {
	lake *lake
	// columns has the decoded columns of files, and sides the build sides.
	columns, sides *lru
	within         limits
	read           counts
}

// counts are what a replica did in an epoch.
type counts struct {
	rows              int64
	training, staging int64 // stored bytes that were read
	files, built      int64 // how often a file was read, and how many build sides were built
	hit, asked        int64 // stored bytes of training columns that the cache had, and of all that were asked for
	needed            int64 // how many build sides the lanes needed
}

func newReplica(l *lake, within limits) *replica {
	return &replica{lake: l, columns: newLRU(within.columns), sides: newLRU(1 << 60), within: within}
}

// stream reads the lanes of one shard. A row group is read once by a stream, whichever of its sections need it.
func (r *replica) stream(p *plan.Plan, shard, of int) {
	read := map[string]bool{}
	for lane := shard; lane < len(p.Lanes); lane += of {
		for _, rows := range p.Lanes[lane].Ranges {
			r.read.rows += rows.To - rows.From
			for _, f := range p.Training(rows).Files {
				r.file(f, read)
			}
			r.side(p, p.Splits[rows.Split].Groups[0])
		}
	}
}

// file reads rows of a training file, whose columns are one row group.
func (r *replica) file(f plan.FileRange, read map[string]bool) {
	at, stored := f.File.Location, r.lake.trainingBytes[f.File.Location]
	share := float64(f.To-f.From) / float64(f.File.Rows)
	asked := int64(share * float64(stored))
	r.read.asked += asked
	if r.columns.use(at, span{f.From, f.To}, stored) {
		r.read.hit += asked
		return
	}
	if !read[at] {
		read[at] = true
		r.read.training += stored
		r.read.files++
	}
}

// side builds the build side of a file group, unless the replica has it.
func (r *replica) side(p *plan.Plan, group int) {
	if group == resolve.NoGroup {
		return
	}
	r.read.needed++
	stored := int64(0)
	for _, f := range p.Staging[0].Groups[group].Files {
		stored += r.lake.stagingBytes[f.Location]
	}
	if !r.sides.use(strconv.Itoa(group), span{0, 1}, stored) {
		r.read.staging += stored
		r.read.built++
	}
}

// take ends an epoch and returns its counts. Build sides that streams need stay until then, whatever the limit.
func (r *replica) take() counts {
	out := r.read
	r.read = counts{}
	r.sides.trim(r.within.sides)
	return out
}

func (c *counts) add(other counts) {
	c.rows += other.rows
	c.training += other.training
	c.staging += other.staging
	c.files += other.files
	c.built += other.built
	c.hit += other.hit
	c.asked += other.asked
	c.needed += other.needed
}
