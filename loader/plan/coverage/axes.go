// Package coverage counts the rows of a plan by partition and bucket of the training table: training rows, the staging rows that are
// joined with them, and matches. People see in it which days of a backfill are missing. It does no I/O, and the size of the
// counts is bounded.
package coverage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// The maximum numbers of parts and of bucket ranges. If there are more partitions or buckets, neighbors count together.
const (
	maxParts   = 128
	maxBuckets = 64
)

// Axes divide the training rows of a plan: by the values of one partition field, and by bucket.
type Axes struct {
	// Partition is the field, such as day(ts): the first with a time transform or, without one, the first identity field of a date or
	// timestamp, or else the first identity field. It is "" if there is none; then there is one part.
	Partition string    `json:"partition"`
	Parts     []Part    `json:"parts"`   // by value, nulls last, then files without the field
	Buckets   []Buckets `json:"buckets"` // in order
}

// Part is a partition value, or several neighbors.
type Part struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Buckets is a bucket, or several neighbors.
type Buckets struct {
	From int `json:"from"` // -1: the bucket of nulls, or there are no buckets
	To   int `json:"to"`
}

// cell is a place in a grid.
type cell struct{ part, bucket int }

// places are the axes of a plan, with the place of each split.
type places struct {
	Axes
	partitions []string // the texts of all values, before neighbors count together
	splits     []cell   // by split of the plan, among all partitions and buckets
	buckets    int      // all buckets, before neighbors count together
}

// Grid has a count for each part and each of its bucket ranges.
type Grid [][]int64

// grid returns a grid of zeros.
func (a *Axes) grid() Grid {
	out := make(Grid, len(a.Parts))
	for i := range out {
		out[i] = make([]int64, len(a.Buckets))
	}
	return out
}

// cell returns the place of a split in a grid.
func (a *places) cell(split int) cell {
	of := a.splits[split]
	return cell{of.part / step(len(a.partitions), maxParts), of.bucket / step(a.buckets, maxBuckets)}
}

// step returns how many neighbors count together so that at most a number of them remain.
func step(n, most int) int { return max(1, (n+most-1)/most) }

// splitSize is the approximate number of bytes that are held for a split.
const splitSize = 256

// Size returns the maximum number of bytes that counts of a plan with some grids take.
func Size(p *plan.Plan, grids int) int64 {
	const countSize = 8
	return int64(len(p.Splits))*splitSize + int64(grids)*countSize*maxParts*maxBuckets
}

// placesOf returns the places of a plan's splits.
func placesOf(p *plan.Plan) *places {
	field, name := partitionField(p)
	a := &places{Axes: Axes{Partition: name, Parts: []Part{}, Buckets: []Buckets{}}, splits: make([]cell, len(p.Splits))}
	values, buckets := make([]partition, len(p.Splits)), make([]int, len(p.Splits))
	for i := range p.Splits {
		values[i], buckets[i] = valueOf(p, i, field), bucketOf(&p.Splits[i])
	}
	parts := slices.CompactFunc(slices.SortedFunc(slices.Values(values), comparePartitions), func(x, y partition) bool { return comparePartitions(x, y) == 0 })
	numbers := slices.Compact(slices.Sorted(slices.Values(buckets)))
	for _, v := range parts {
		a.partitions = append(a.partitions, v.text)
	}
	a.buckets = len(numbers)
	for i := range p.Splits {
		a.splits[i].part, _ = slices.BinarySearchFunc(parts, values[i], comparePartitions)
		a.splits[i].bucket, _ = slices.BinarySearch(numbers, buckets[i])
	}
	for chunk := range slices.Chunk(a.partitions, step(len(a.partitions), maxParts)) {
		a.Parts = append(a.Parts, Part{chunk[0], chunk[len(chunk)-1]})
	}
	for chunk := range slices.Chunk(numbers, step(len(numbers), maxBuckets)) {
		a.Buckets = append(a.Buckets, Buckets{chunk[0], chunk[len(chunk)-1]})
	}
	return a
}

// bucketOf returns the number of a split's bucket; -1 for the bucket of nulls, and without buckets.
func bucketOf(s *plan.Split) int {
	if s.Bucket.Of == 0 || s.Bucket.Null() {
		return -1
	}
	return s.Bucket.ID
}

// partition is the partition value of a split.
type partition struct {
	value  any
	absent bool // the split's files have no such field
	text   string
}

// comparePartitions orders partition values: by value, nulls after all values, and splits without the field last.
func comparePartitions(x, y partition) int {
	if x.absent || y.absent {
		return compareTruths(x.absent, y.absent)
	}
	if x.value == nil || y.value == nil {
		return compareTruths(x.value == nil, y.value == nil)
	}
	if a, ok := x.value.(int64); ok {
		if b, ok := y.value.(int64); ok {
			return cmp.Compare(a, b)
		}
	}
	return cmp.Compare(x.text, y.text)
}

// compareTruths orders false before true.
func compareTruths(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// valueOf returns the value of a partition field for a split. A nil field is that of a table without partitions.
func valueOf(p *plan.Plan, split int, field *catalog.PartitionField) partition {
	if field == nil {
		return partition{text: "all rows", value: ""}
	}
	file := p.Splits[split].Files[0].File // all files of a split are in one partition
	for i, f := range p.Relation.Training.Specs[file.Spec] {
		if f.Source == field.Source && f.Transform == field.Transform {
			column, _ := p.Relation.Training.ByID(f.Source)
			return partition{value: file.Partition[i], text: f.Text(file.Partition[i], column)}
		}
	}
	return partition{absent: true, text: "files without " + field.Name}
}

// partitionField returns the field of the newest partition spec of the splits that divides them, with its text; nil if there is none.
func partitionField(p *plan.Plan) (*catalog.PartitionField, string) {
	newest := -1
	for i := range p.Splits {
		newest = max(newest, p.Splits[i].Files[0].File.Spec)
	}
	if newest < 0 {
		return nil, ""
	}
	t := p.Relation.Training
	var found *catalog.PartitionField
	best := 0
	for i, f := range t.Specs[newest] {
		column, _ := t.ByID(f.Source)
		if rank := rankOf(f, column); i != p.BucketField(newest) && rank > best {
			found, best = &t.Specs[newest][i], rank
		}
	}
	if found == nil {
		return nil, ""
	}
	column, _ := t.ByID(found.Source)
	if found.Transform.Kind == catalog.Identity {
		return found, column.Name
	}
	return found, fmt.Sprintf("%s(%s)", found.Transform.Kind, column.Name)
}

// rankOf returns how well a partition field divides rows by time; 0: not at all, since its values have no meaning for people.
func rankOf(f catalog.PartitionField, column catalog.Field) int {
	switch f.Transform.Kind {
	case catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		return 3 //nolint:mnd // the best
	case catalog.Identity:
		switch column.Type.(type) {
		case *arrow.Date32Type, *arrow.TimestampType:
			return 2 //nolint:mnd // better than other columns
		}
		return 1
	case catalog.Bucket, catalog.Truncate, catalog.Other:
	}
	return 0
}
