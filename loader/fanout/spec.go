package fanout

import (
	"slices"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// maxSlices is the maximum number of a stream's batches in one step of its group. It is limited so
// that no stream waits long for rows that other streams need.
const maxSlices = 16

// batchSpec describes the batches of a stream. A group's reader has the spec that its members need
// together.
type batchSpec struct {
	columns *selectedColumns
	perLane int64 // the number of rows, or requests, that each lane contributes to a batch
}

// selectedColumns holds the columns of a reading, except dense columns. It is immutable. Whether a
// column is a category is a part of id only and not of byName, since a view can convert between
// codes and values.
type selectedColumns struct {
	id     string // equal if the columns and their order are equal
	list   []dataset.Column
	byName map[string]dataset.Column // by the columns' names in the stream; categories are converted by asValues
}

// columnsOf returns the columns of a planned query.
func columnsOf(p loader.Planned) *selectedColumns {
	if p.Query.Columns != nil {
		return newSelectedColumns(p.Query.Columns)
	}
	var all []dataset.Column
	for _, o := range p.Outputs {
		if o.Dense == nil { // computed columns are the dataset's
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

// asValues returns a column that sends the same values, but is not a category.
func asValues(one dataset.Column) dataset.Column {
	if one.As == dataset.Category {
		one.As = ""
	}
	return one
}

// contains reports whether c has all columns of the other set.
func (c *selectedColumns) contains(o *selectedColumns) bool {
	return c.id == o.id || !slices.ContainsFunc(o.list, func(one dataset.Column) bool { return c.byName[one.Name] != asValues(one) })
}

// agrees reports whether columns of the same name are equal in both sets.
func (c *selectedColumns) agrees(o *selectedColumns) bool {
	return c.id == o.id || !slices.ContainsFunc(o.list, func(one dataset.Column) bool {
		mine, there := c.byName[one.Name]
		return there && mine != asValues(one)
	})
}

// with returns the columns of both sets. If both sets have different columns of the same name, the
// result has only the column of the first set.
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

// contains reports whether batches of the other spec are slices of batches of b.
func (b batchSpec) contains(o batchSpec) bool {
	return b.perLane%o.perLane == 0 && b.perLane/o.perLane <= maxSlices && b.columns.contains(o.columns)
}

// with returns the smallest spec that contains both specs. It tries only the larger of the two
// batch sizes, and returns false if the other size does not divide it, or is more than maxSlices
// times smaller.
func (b batchSpec) with(o batchSpec) (batchSpec, bool) {
	union := batchSpec{b.columns.with(o.columns), max(b.perLane, o.perLane)}
	return union, union.contains(b) && union.contains(o)
}

// equal reports whether the batches of two specs are the same.
func (b batchSpec) equal(o batchSpec) bool {
	return b.perLane == o.perLane && b.columns.id == o.columns.id
}

// marks returns the distance in rows between the marks of a step (stream.StepReader.MarkEvery), at
// which the slices that members take begin and end. The distance may be smaller than the members
// need, so that streams with other usual batch sizes find marks too. A member that would need too
// many marks is skipped, and finds no marks; earlier members take precedence. 0 means that members
// take only whole steps.
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

// divide reports whether one size of steps suits all specs: the largest size of their batches, but
// at least the given size. It suits them if all batches are slices of such steps and the number of
// marks is within its limit.
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
	// minMarked is the minimum distance in rows between marks, unless members need a smaller
	// distance.
	minMarked = 64
	// maxMarks is the maximum number of marks of a step. It is limited because the counts at marks
	// take memory in addition to the batches.
	maxMarks = 64
)

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
