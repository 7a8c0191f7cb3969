package fanout

import (
	"slices"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// maxSlices bounds the batches of a stream in one step of its group, so that no stream waits long
// for the rows of others.
const maxSlices = 16

// batchSpec describes the batches of a stream. A group's reader has the spec that its members need
// together.
type batchSpec struct {
	columns *selectedColumns
	perLane int64 // rows, or requests, of each lane
}

// selectedColumns is the columns of a reading, besides dense ones. It is immutable. Whether a column is a
// category is part of its id only, since a view can change the form.
type selectedColumns struct {
	id     string // equal for equal columns in the same order
	list   []dataset.Column
	byName map[string]dataset.Column // by their names in the stream; none is a category
}

// columnsOf returns the columns of a planned query.
func columnsOf(p loader.Planned) *selectedColumns {
	if p.Query.Columns != nil {
		return newSelectedColumns(p.Query.Columns)
	}
	var all []dataset.Column
	for _, o := range p.Outputs {
		if o.Dense == nil {
			all = append(all, dataset.Column{Column: o.Name})
		}
	}
	return newSelectedColumns(all)
}

func newSelectedColumns(list []dataset.Column) *selectedColumns {
	c := &selectedColumns{byName: map[string]dataset.Column{}}
	for _, one := range list {
		one.Name = one.Output()
		c.list = append(c.list, one)
		c.byName[one.Name] = asValues(one)
	}
	c.id = digest.Of(c.list)
	return c
}

// asValues returns a column as it is without being a category.
func asValues(one dataset.Column) dataset.Column {
	if one.As == dataset.Category {
		one.As = ""
	}
	return one
}

// contains reports whether all columns of another set are in this one.
func (c *selectedColumns) contains(o *selectedColumns) bool {
	return c.id == o.id || !slices.ContainsFunc(o.list, func(one dataset.Column) bool { return c.byName[one.Name] != asValues(one) })
}

// agrees reports whether no different columns of two sets have one name.
func (c *selectedColumns) agrees(o *selectedColumns) bool {
	return c.id == o.id || !slices.ContainsFunc(o.list, func(one dataset.Column) bool {
		mine, there := c.byName[one.Name]
		return there && mine != asValues(one)
	})
}

// with returns the columns of both sets. If different columns have one name, only the first set's is
// among them.
func (c *selectedColumns) with(o *selectedColumns) *selectedColumns {
	if c.contains(o) {
		return c
	}
	if o.contains(c) {
		return o
	}
	all := slices.Clone(c.list)
	for _, one := range o.list {
		if _, there := c.byName[one.Name]; !there {
			all = append(all, one)
		}
	}
	return newSelectedColumns(all)
}

// contains reports whether the batches of another spec are slices of those of this one.
func (b batchSpec) contains(o batchSpec) bool {
	return b.perLane%o.perLane == 0 && b.perLane/o.perLane <= maxSlices && b.columns.contains(o.columns)
}

// with returns the smallest spec that contains both; false if there is none that streams should
// share.
func (b batchSpec) with(o batchSpec) (batchSpec, bool) {
	union := batchSpec{b.columns.with(o.columns), max(b.perLane, o.perLane)}
	return union, union.contains(b) && union.contains(o)
}

// equal reports whether batches of two specs are the same.
func (b batchSpec) equal(o batchSpec) bool {
	return b.perLane == o.perLane && b.columns.id == o.columns.id
}

// marks returns the distance in rows of the marks of a step (stream.StepReader.MarkEvery), between
// which members take slices. It is smaller than the members need, so that streams with other usual
// batch sizes find marks too. If there would be too many marks, the last members find none. 0 means
// that only whole steps are taken.
func (b batchSpec) marks(members []batchSpec) int64 {
	every := b.perLane
	for _, m := range members {
		if both := gcd(every, m.perLane); b.perLane/both <= maxMarks {
			every = both
		}
	}
	for every%2 == 0 && every/2 >= minMarked && b.perLane/every < maxSlices {
		every /= 2
	}
	if every == b.perLane {
		return 0
	}
	return every
}

// divide reports whether batches of all sizes are slices of steps of the largest one, at least of a
// given size, that have a bounded number of marks.
func divide(perLane int64, all []batchSpec) bool {
	for _, one := range all {
		perLane = max(perLane, one.perLane)
	}
	every := perLane
	for _, one := range all {
		if perLane%one.perLane != 0 || perLane/one.perLane > maxSlices {
			return false
		}
		every = gcd(every, one.perLane)
	}
	return perLane/every <= maxMarks
}

const (
	// minMarked is the minimum number of rows between marks that no member needs.
	minMarked = 64
	// maxMarks bounds the marks of a step, whose counts take memory besides the batches.
	maxMarks = 64
)

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
