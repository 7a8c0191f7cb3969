package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// smallTable is the maximum size, in bytes of files, of a staging table whose overlapping file
// groups may be merged. They are merged if separate groups would read the same bytes too often.
const smallTable = 64 << 20

// matchStaging finds the file group of every split in one staging table. If no stream reads the
// table, splits have no group in it.
func (p *Plan) matchStaging(staging int, files Files) (Staging, error) {
	if files.Staging[staging].Unlisted {
		for i := range p.Splits {
			p.Splits[i].Groups = append(p.Splits[i].Groups, resolve.NoGroup)
		}
		return Staging{Unread: true}, nil
	}
	r := p.Relation.Staging[staging]
	all := files.Staging[staging].Files
	kept := all
	if r.Rows != nil {
		kept = slices.DeleteFunc(slices.Clone(all), func(f catalog.File) bool { return !mayMatch(r.Rows, r.Pinned, f) })
	}
	if needsCommits(r) && !slices.IsSortedFunc(kept, byCommit) {
		kept = slices.SortedFunc(slices.Values(kept), byCommit)
	}
	out := Staging{Pruned: len(all) - len(kept)}
	keys := make([]catalog.Field, len(r.Keys))
	for i, k := range r.Keys {
		keys[i] = k.Staging
	}
	out.checked = resolve.Bucketed(r.Pinned, kept, keys)
	m, err := resolve.NewMatch(p.Relation, staging, files.Training.Files, all, kept)
	if err != nil {
		return out, p.inEntry(err, staging)
	}
	if err := p.assignGroups(m, &out); err != nil {
		return out, p.inEntry(err, staging)
	}
	sets := m.Sets()
	limit := cmp.Or(r.MaxAmplification, dataset.DefaultMaxAmplification)
	if read, stored := overlap(sets, kept); read > limit*stored {
		if stored > smallTable {
			return out, p.inEntry(p.amplified(staging, read, stored), staging)
		}
		out.Merged = true
		var number []int
		sets, number = mergeOverlapping(sets, len(kept))
		for _, split := range p.Splits {
			if group := &split.Groups[staging]; *group != resolve.NoGroup {
				*group = number[*group]
			}
		}
	}
	for _, set := range sets {
		group := newFileGroup(set, kept)
		if err := checkGroup(r, group, p.pinned); err != nil {
			return out, p.inEntry(err, staging)
		}
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

func (b *Bound) inEntry(err error, staging int) error {
	return fault.Op(err, "plan staging[%d] %s", staging, b.Relation.Staging[staging].Name)
}

// assignGroups sets the file group of every split. It also counts the training partitions that no
// staging partition is aligned with.
func (p *Plan) assignGroups(m *resolve.Match, out *Staging) error {
	var files []catalog.File
	specs := map[int]bool{}
	alone := map[string]bool{}
	for i := range p.Splits {
		split := &p.Splits[i]
		files = files[:0]
		for _, f := range split.Files {
			files = append(files, f.File)
		}
		group, exists, err := m.Group(files)
		if err != nil {
			return err
		}
		split.Groups = append(split.Groups, group)
		if spec := files[0].Spec; !specs[spec] {
			specs[spec] = true
			out.Layout = append(out.Layout, m.Layout(spec)...)
		}
		if !exists {
			alone[m.Partition(files[0])] = true
			out.Unaligned.Rows += split.Rows
		}
	}
	out.Unaligned.Partitions = len(alone)
	out.Aligned = m.Aligned()
	return nil
}

// newFileGroup collects the files of a set.
func newFileGroup(set []int32, files []catalog.File) FileGroup {
	var g FileGroup
	if len(set) > 0 {
		g.Files = make([]catalog.File, 0, len(set))
	}
	for _, i := range set {
		g.Files = append(g.Files, files[i])
		g.Bytes += files[i].Bytes
		g.Rows += files[i].Rows
	}
	return g
}

// overlap returns the total bytes of all sets of files (read), and the bytes of the distinct files
// in them (stored).
func overlap(sets [][]int32, files []catalog.File) (read, stored float64) {
	seen := make([]bool, len(files))
	for _, set := range sets {
		for _, i := range set {
			read += float64(files[i].Bytes)
			if !seen[i] {
				seen[i] = true
				stored += float64(files[i].Bytes)
			}
		}
	}
	return read, stored
}

// mergeOverlapping merges all sets that share files, directly or through other sets. Then no file
// is read twice, but some splits read more than they need. number maps each set to the merged set
// that contains the set's files. Sets of different aligned partitions share no files and are not
// merged.
func mergeOverlapping(sets [][]int32, files int) (merged [][]int32, number []int) {
	first := slices.Repeat([]int{-1}, files) // by file: the first set that contains it
	parent := make([]int, len(sets))         // by set: an earlier set that shares files with it, or itself
	root := func(i int) int {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	for i, set := range sets {
		parent[i] = i
		for _, f := range set {
			if first[f] < 0 {
				first[f] = i
			}
			a, b := root(i), root(first[f])
			parent[max(a, b)] = min(a, b)
		}
	}
	number = make([]int, len(sets))
	for i := range sets {
		if r := root(i); r < i {
			number[i] = number[r]
			continue
		}
		number[i] = len(merged)
		merged = append(merged, nil)
	}
	for f, i := range first {
		if i >= 0 {
			n := number[i]
			merged[n] = append(merged[n], int32(f))
		}
	}
	return merged, number
}

// bytesPerBucket is the suggested size of a staging bucket, in bytes of files, if nothing else
// determines the number of buckets.
const bytesPerBucket = 128 << 20

// amplified returns an error if a table would be read too often. The error suggests a better
// layout.
func (p *Plan) amplified(staging int, read, stored float64) error {
	r := p.Relation.Staging[staging]
	training := p.Relation.Training
	buckets, key := 0, r.Keys[0]
	for _, split := range p.Splits {
		for _, k := range r.Keys {
			if b, ok := training.BucketOf(split.Files[0].File, k.Training.ID); ok && b.Of > buckets {
				buckets, key = b.Of, k
			}
		}
	}
	advice := ""
	if buckets == 0 {
		buckets = 1 << max(1, int(math.Ceil(math.Log2(stored/bytesPerBucket))))
		advice = rewrite(training.Name, buckets, key.Training.Name) + " and "
	}
	e := fault.New(fault.Invalid, "the files of %s that splits need overlap: %.1f bytes would be read for each byte stored, the limit is %g",
		r.Pinned.Name, read/stored, r.MaxAmplification).In(r.Pinned.Name, "")
	e.Faults = []fault.Field{{Field: fmt.Sprintf("staging[%d].max_amplification", staging), Message: e.Message}}
	align := ""
	if r.Align == nil {
		align = "; or align its partitions if only rows of one partition may match"
	}
	return e.WithRemedy("bucket it as the training table is: %s%s%s; or raise max_amplification", advice, rewrite(r.Pinned.Name, buckets, key.Staging.Name), align)
}

// rewrite returns SQL statements that bucket a table.
func rewrite(table string, buckets int, column string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD PARTITION FIELD bucket(%d, %s); CALL system.rewrite_data_files(table => '%s', options => map('rewrite-all', 'true'))",
		table, buckets, column, table)
}
