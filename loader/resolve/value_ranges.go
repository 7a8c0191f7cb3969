package resolve

import (
	"slices"

	"github.com/penstock/penstock/loader/catalog"
)

// ValueRanges returns the field ids of the columns whose value ranges NewMatch uses: of the
// training table, and of the table of each staging entry. If files lack these ranges, more files
// are read.
func (r *Relation) ValueRanges() (training []int, staging [][]int) {
	staging = make([][]int, len(r.Staging))
	add := func(entry int, t, s catalog.Field) {
		training, staging[entry] = append(training, t.ID), append(staging[entry], s.ID)
	}
	for i, s := range r.Staging {
		if s.Promoted != nil || s.searchedWhole() {
			continue
		}
		if s.Time != nil {
			add(i, s.Time.Training, s.Time.Staging)
		}
		if bucketed(s.Keys, r.Training, s.Pinned) {
			continue
		}
		for _, k := range s.Keys {
			add(i, k.Training, k.Staging)
		}
	}
	slices.Sort(training)
	return slices.Compact(training), staging
}

// bucketed reports whether every pair of a training spec and a staging spec has buckets on a common
// key column.
func bucketed(keys []Key, training, staging *catalog.Table) bool {
	for _, t := range training.Specs {
		for _, s := range staging.Specs {
			if len(bucketPairs(keys, t, s)) == 0 {
				return false
			}
		}
	}
	return true
}

// Bucketed returns those of the given columns by which some files of a table are bucketed. The
// values of these columns are checked against the buckets.
func Bucketed(t *catalog.Table, files []catalog.File, columns []catalog.Field) []catalog.Field {
	specs := map[int]bool{}
	for _, f := range files {
		specs[f.Spec] = true
	}
	var out []catalog.Field
	for _, c := range columns {
		known := slices.ContainsFunc(out, func(f catalog.Field) bool { return f.ID == c.ID })
		for id := range specs {
			if !known && slices.ContainsFunc(t.Specs[id], func(p catalog.PartitionField) bool {
				return p.Source == c.ID && p.Transform.Kind == catalog.Bucket
			}) {
				out, known = append(out, c), true
			}
		}
	}
	return out
}
