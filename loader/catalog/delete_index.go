package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Delete sets File.Deletes of each data file to the delete files that apply to it, according to
// "Scan Planning" in the specification. A deletion vector applies to the data file that it names.
// Position deletes apply to data files that are not newer than they are: to the file that they
// name, or to all files in their partition. Equality deletes apply to data files that are older
// than they are and in their partition, or in any partition if their spec has no partition fields.
// If a data file has a deletion vector, its position deletes are left out, because the vector
// contains them. A data file with two vectors, or with a vector that is older than the data file,
// is Corrupt.
func Delete(t *Table, files []File, deletes []*DeleteFile) error {
	if len(deletes) == 0 {
		return nil
	}
	index, err := newDeleteIndex(t, deletes)
	if err != nil {
		return err
	}
	for i := range files {
		if files[i].Deletes, err = index.of(&files[i]); err != nil {
			return err
		}
	}
	index.trim(files)
	return nil
}

// deleteIndex finds the delete files of a data file. Its lists are ordered by sequence
// number and location.
type deleteIndex struct {
	table    *Table
	vectors  map[string]*DeleteFile      // by the data file's location
	named    map[string][]*DeleteFile    // position deletes of one data file
	scoped   map[string][]*DeleteFile    // position deletes of a partition
	equality map[string][]*EqualityGroup // by partition
	global   []*EqualityGroup            // that apply to the whole table
}

func newDeleteIndex(t *Table, deletes []*DeleteFile) (*deleteIndex, error) {
	deletes = slices.Clone(deletes)
	slices.SortStableFunc(deletes, func(a, b *DeleteFile) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Location, b.Location))
	})
	x := &deleteIndex{
		table: t, vectors: map[string]*DeleteFile{}, named: map[string][]*DeleteFile{},
		scoped: map[string][]*DeleteFile{}, equality: map[string][]*EqualityGroup{},
	}
	groups := map[string]*EqualityGroup{}
	for _, d := range deletes {
		switch d.Kind {
		case DeletionVector:
			if other := x.vectors[d.Data]; other != nil {
				return nil, x.corrupt(d, "data file %s has two deletion vectors, in %s and in %s", d.Data, other.Location, d.Location)
			}
			x.vectors[d.Data] = d
		case PositionDeletes:
			if d.Data != "" {
				x.named[d.Data] = append(x.named[d.Data], d)
			} else {
				in := scope(d.Spec, d.Partition)
				x.scoped[in] = append(x.scoped[in], d)
			}
		case EqualityDeletes:
			x.addEquality(groups, d)
		}
	}
	return x, nil
}

// addEquality adds a file of equality deletes to the group that has the same scope (a partition, or
// the table) and the same columns.
func (x *deleteIndex) addEquality(groups map[string]*EqualityGroup, d *DeleteFile) {
	in, global := "", len(x.table.Specs[d.Spec]) == 0
	if !global {
		in = scope(d.Spec, d.Partition)
	}
	key := []byte(in)
	for _, c := range d.Columns {
		key = fmt.Appendf(key, "%d ", c.ID)
	}
	g := groups[string(key)]
	if g == nil {
		g = &EqualityGroup{Columns: d.Columns}
		groups[string(key)] = g
		if global {
			x.global = append(x.global, g)
		} else {
			x.equality[in] = append(x.equality[in], g)
		}
	}
	g.Files = append(g.Files, d)
}

// scope identifies a partition of a spec.
func scope(spec int, partition []any) string {
	return string(AppendPartition(fmt.Appendf(nil, "%d\n", spec), partition))
}

// AppendPartition appends a key that identifies partition values within one spec.
func AppendPartition(text []byte, values []any) []byte {
	for _, v := range values {
		text = fmt.Appendf(text, "%T %q\n", v, fmt.Sprint(v))
	}
	return text
}

// of returns the delete files of a data file.
func (x *deleteIndex) of(f *File) (Deletes, error) {
	var out Deletes
	in := ""
	if len(x.scoped)+len(x.equality) > 0 {
		in = scope(f.Spec, f.Partition)
	}
	if out.Vector = x.vectors[f.Location]; out.Vector != nil {
		if out.Vector.Sequence < f.Sequence {
			return out, x.corrupt(out.Vector, "the deletion vector of data file %s has sequence number %d, the file %d",
				f.Location, out.Vector.Sequence, f.Sequence)
		}
	} else {
		out.Positions = joined(from(x.named[f.Location], f.Sequence), from(x.scoped[in], f.Sequence))
	}
	for _, groups := range [][]*EqualityGroup{x.global, x.equality[in]} {
		for _, g := range groups {
			if len(g.After(f.Sequence)) > 0 {
				out.Equality = append(out.Equality, g)
			}
		}
	}
	return out, nil
}

// from returns the delete files whose sequence number is at least the given one.
func from(files []*DeleteFile, sequence int64) []*DeleteFile {
	return files[sort.Search(len(files), func(i int) bool { return files[i].Sequence >= sequence }):]
}

// joined merges two lists. It copies nothing if one of them is empty.
func joined(a, b []*DeleteFile) []*DeleteFile {
	switch {
	case len(a) == 0:
		return slices.Clip(b)
	case len(b) == 0:
		return slices.Clip(a)
	}
	out := slices.Concat(a, b)
	slices.SortStableFunc(out, func(a, b *DeleteFile) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Location, b.Location))
	})
	return out
}

// trim drops each file of equality deletes that is not newer than any data file of its group: it
// deletes nothing, so it need not be read.
func (x *deleteIndex) trim(files []File) {
	oldest := map[*EqualityGroup]int64{}
	for i := range files {
		for _, g := range files[i].Deletes.Equality {
			if s, ok := oldest[g]; !ok || files[i].Sequence < s {
				oldest[g] = files[i].Sequence
			}
		}
	}
	for g, s := range oldest {
		g.Files = g.After(s)
	}
}

func (x *deleteIndex) corrupt(d *DeleteFile, format string, args ...any) error {
	return fault.New(fault.Corrupt, format, args...).In(x.table.Name, d.Location).
		WithRemedy("the table's metadata contradicts itself: roll back to an earlier snapshot, or rewrite the data file")
}
