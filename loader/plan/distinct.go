package plan

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// wholeBuckets reports whether buckets of a partition must not be divided into several splits or
// lanes. They must not be divided if repeated rows, or the rows of a request, have to be in one
// split.
func (b *Bound) wholeBuckets() bool { return b.Relation.Distinct != nil || b.Rows.Requests }

// checkDistinct checks that repeated rows are in the same split: the columns that identify a row
// must determine all of its partition values.
func (b *Bound) checkDistinct(files []catalog.File) error {
	d := b.Relation.Distinct
	if d == nil || d.Scope.OfPartition() {
		return nil
	}
	t := b.Relation.Training
	scope := "or set scope: partition, if repeated rows occur only within a partition"
	names := make([]string, len(d.By))
	for i, f := range d.By {
		names[i] = f.Name
	}
	for _, f := range files {
		if f.Spec != files[0].Spec {
			return refuseDistinct("rows that agree in %v may lie in files of partition specs %d and %d", names, files[0].Spec, f.Spec).
				In(t.Name, f.Location).WithRemedy("rewrite the older files with the current spec, %s", scope)
		}
	}
	if len(files) == 0 {
		return nil
	}
	bucketed := false
	for _, field := range t.Specs[files[0].Spec] {
		by := slices.ContainsFunc(d.By, func(f catalog.Field) bool { return f.ID == field.Source })
		if !by {
			return refuseDistinct("rows that agree in %v may lie in several partitions of %s", names, field.Name).In(t.Name, "").
				WithRemedy("add the source column of %s to by, %s", field.Name, scope)
		}
		bucketed = bucketed || field.Transform.Kind == catalog.Bucket
	}
	if !bucketed {
		return refuseDistinct("%s is not bucketed by any of %v, so finding repeated rows would require all of its rows at once", t.Name, names).In(t.Name, "").
			WithRemedy("bucket the table: %s; %s", rewrite(t.Name, 16, names[0]), scope)
	}
	return nil
}

// checkWritten returns an error if, in some split, it is unknown which of two repeated rows was
// written first.
func (p *Plan) checkWritten() error {
	if p.Relation.Distinct == nil {
		return nil
	}
	for i, split := range p.Splits {
		files := p.Training(Range{Split: i, To: split.Rows}).files()
		if err := checkCommits(p.Relation.Training, files, p.pinned, "distinct", "drop the repeated rows from the table, or leave distinct out"); err != nil {
			return err
		}
	}
	return nil
}

func refuseDistinct(format string, args ...any) *fault.Error {
	return fault.InvalidField("training.distinct", "%s", fmt.Sprintf(format, args...))
}
