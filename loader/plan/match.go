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

// SmallTable bounds the staging tables, in bytes of files, whose classes are
// joined into one where reading them apart would read too much twice.
const SmallTable = 64 << 20

// match finds the class of every split in one staging table.
func (p *Plan) match(staging int, files Files, q dataset.Query) (Staging, error) {
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
		if stored > SmallTable {
			return out, p.inEntry(p.amplified(staging, read, stored), staging)
		}
		sets = p.join(staging, sets, len(kept))
		out.Joined = true
	}
	for _, set := range sets {
		class := newFileGroup(set, kept)
		if needsCommits(r) {
			if err := checkCommits(r.Pinned, class.Files, q, "duplicates: "+r.Duplicates.String()); err != nil {
				return out, p.inEntry(err, staging)
			}
		}
		out.Groups = append(out.Groups, class)
	}
	return out, nil
}

func (p *Plan) inEntry(err error, staging int) error {
	return fault.Op(err, "plan staging[%d] %s", staging, p.Relation.Staging[staging].Name)
}

// classify sets the class of every split, and counts partitions without one
// to be aligned with.
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
		class, exists, err := m.Group(files)
		if err != nil {
			return err
		}
		split.Groups = append(split.Groups, class)
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

// newClass collects the files of a set.
func newFileGroup(set []int32, files []catalog.File) FileGroup {
	var c FileGroup
	if len(set) > 0 {
		c.Files = make([]catalog.File, 0, len(set))
	}
	for _, i := range set {
		c.Files = append(c.Files, files[i])
		c.Bytes += files[i].Bytes
		c.Rows += files[i].Rows
	}
	return c
}

// overlap returns the bytes of all sets of files, and of the files in them.
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

// join makes one set of all sets that share files, directly or through
// others, and gives the splits their new classes. More is read for a split
// than it needs, and nothing twice. Aligned partitions share no files, so that
// none is joined with another.
func (p *Plan) join(staging int, sets [][]int32, files int) [][]int32 {
	owner := make([]int, files) // of a file: the first set that has it
	parent := make([]int, len(sets))
	root := func(i int) int {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	for i := range owner {
		owner[i] = -1
	}
	for i, set := range sets {
		parent[i] = i
		for _, f := range set {
			if owner[f] < 0 {
				owner[f] = i
			}
			a, b := root(i), root(owner[f])
			parent[max(a, b)] = min(a, b)
		}
	}
	number := make([]int, len(sets))
	var joined [][]int32
	for i := range sets {
		if root(i) == i {
			number[i] = len(joined)
			joined = append(joined, nil)
		}
	}
	for f, first := range owner {
		if first >= 0 {
			n := number[root(first)]
			joined[n] = append(joined[n], int32(f))
		}
	}
	for i := range p.Splits {
		if class := &p.Splits[i].Groups[staging]; *class != resolve.NoGroup {
			*class = number[root(*class)]
		}
	}
	return joined
}

// bytesPerBucket is how much of a staging table a bucket should hold, in bytes
// of files, where nothing else says how many buckets it should have.
const bytesPerBucket = 128 << 20

// amplified refuses to read a table too often, and says how it should be laid
// out.
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
		align = "; or align its partitions, where rows of one partition alone may match"
	}
	return e.WithRemedy("bucket it as the training table is: %s%s%s; or raise max_amplification", advice, rewrite(r.Pinned.Name, buckets, key.Staging.Name), align)
}

// rewrite is the SQL that buckets a table.
func rewrite(table string, buckets int, column string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD PARTITION FIELD bucket(%d, %s); CALL system.rewrite_data_files(table => '%s', options => map('rewrite-all', 'true'))",
		table, buckets, column, table)
}
