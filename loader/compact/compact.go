// Package compact chooses the files of a table that are rewritten together. It knows no catalog,
// no storage and no clock: a listing of files is mapped to a selection.
//
// Files are rewritten that are small, have deletes on them, are of an older partition spec, or do
// not declare the table's sort order. The files that become new ones together are a RewriteSet:
// files of one partition, or files of older specs.
//
// Readers take some rows by the order in which they were written: by sequence number, then by the
// location of the file and the position in it. Unless Options.AnyOrder is set, a selection keeps
// this order among the rows of each key:
//
//   - A set is of consecutive files of its partition, and its rows get one sequence number.
//   - No other file that may have the same keys has a sequence number between those of the set.
//     Files of other partitions may have them, unless a partition field of the key tells them apart.
//   - Rows with equal keys have equal sort keys, so that sorting does not move them apart.
//
// Files that cannot be rewritten like that stay, and FileSelection has them.
//
// Rows whose key occurs once have no order. If the caller knows that all keys of a partition do (Options.Once), its files are
// rewritten in any order.
package compact

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
)

// TableLayout is what new files of a table are like.
type TableLayout struct {
	Specs map[int]catalog.Spec
	Spec  int // id of the current one
	// Key has the field ids of columns whose values are equal in all rows of a key.
	Key []int
	// Sort has the field ids of the columns that rows are sorted by.
	Sort []int
	// Order is the id of the sort order that new files declare; 0: they declare none.
	Order int
	// Folder returns the folder of new files of a partition of the current spec, without a
	// slash at its end.
	Folder func(partition []any) string
}

// Options are what to rewrite.
type Options struct {
	// MinFiles is the least number of small files of a partition that are rewritten.
	MinFiles int
	// FileBytes is the size of files to aim at. Files that have three quarters of it are not small.
	FileBytes int64
	// SetBytes bounds the bytes of a set, unless it has one file. A set may be WideSet times larger if equality deletes reach
	// beyond it.
	SetBytes int64
	// AnyOrder does not keep the order in which rows of a key were written.
	AnyOrder bool
	// Once reports files whose keys are known to occur in one row of the table only; nil: none. Partitions that have only such
	// files are rewritten in any order.
	Once func(f catalog.File) bool
	// Leave reports files that stay as they are, whatever they are like; nil: none.
	Leave func(f catalog.File) bool
}

// WideSet is how much larger than Options.SetBytes a set may be whose equality deletes also apply to the files after it. The new files
// are as new as the deletes that were applied to them, so that none of the files could be rewritten without the others.
const WideSet = 16

// RewriteSet is a set of files whose rows become new files, sorted together.
type RewriteSet struct {
	// Files are in the order in which they were written.
	Files []catalog.File
	// Partition has the values of all their rows in the current spec, unless Mixed is true: then
	// the files are of older specs, and their rows may be of any partition.
	Partition []any
	Mixed     bool
	// Sequence is the data sequence number of the new files; 0 is that of the new snapshot.
	// Equality deletes that were applied do not apply to it.
	Sequence int64
}

// Bytes returns the size of the files.
func (s RewriteSet) Bytes() (bytes int64) {
	for _, f := range s.Files {
		bytes += f.Bytes
	}
	return bytes
}

// Rows returns the number of stored rows of the files, deleted ones included.
func (s RewriteSet) Rows() (rows int64) {
	for _, f := range s.Files {
		rows += f.Rows
	}
	return rows
}

// FileSelection is what is rewritten of a table.
type FileSelection struct {
	Sets []RewriteSet
	// Kept are the files that stay only because rows of a key would change their order: with Options.AnyOrder they would be
	// rewritten.
	Kept []catalog.File
}

// First returns the first sets of different partitions that have together at most a number of
// bytes, or the first set. Sets of older specs come alone.
func (s FileSelection) First(bytes int64) []RewriteSet {
	var out []RewriteSet
	seen, sum := map[string]bool{}, int64(0)
	for _, set := range s.Sets {
		key := textOf(set.Partition)
		if len(out) > 0 && (sum+set.Bytes() > bytes || set.Mixed || out[0].Mixed) {
			break
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		out, sum = append(out, set), sum+set.Bytes()
	}
	return out
}

// textOf identifies the values of a partition.
func textOf(partition []any) string { return string(catalog.AppendPartition(nil, partition)) }

// Select selects the files to rewrite of all data files of a snapshot.
func Select(layout TableLayout, options Options, files []catalog.File) FileSelection {
	s := &selecting{TableLayout: layout, Options: options, shared: map[string][]catalog.File{}}
	partitions, older := map[string][]catalog.File{}, []catalog.File(nil)
	var names []string
	for _, f := range files {
		if f.Spec != layout.Spec {
			older = append(older, f)
			continue
		}
		name := textOf(f.Partition)
		if partitions[name] == nil {
			names = append(names, name)
		}
		partitions[name] = append(partitions[name], f)
	}
	free := map[string]bool{}
	for name, in := range partitions {
		if free[name] = options.AnyOrder || options.Once != nil && !slices.ContainsFunc(in, func(f catalog.File) bool { return !options.Once(f) }); free[name] {
			continue
		}
		group := s.group(in[0].Partition)
		s.shared[group] = append(s.shared[group], in...)
	}
	for _, group := range s.shared {
		slices.SortFunc(group, ByWritten)
	}
	slices.SortFunc(older, ByWritten)
	s.older = older
	slices.Sort(names)
	for _, name := range names {
		in := partitions[name]
		slices.SortFunc(in, ByWritten)
		if free[name] {
			s.freely(in, false)
		} else {
			s.runs(in)
		}
	}
	if s.AnyOrder {
		s.freely(older, true)
		return s.out
	}
	s.commits(older)
	options.AnyOrder = true
	s.out.Kept = s.out.without(Select(layout, options, files))
	return s.out
}

// without returns the files that another selection has and this one does not have.
func (s FileSelection) without(other FileSelection) (files []catalog.File) {
	rewritten := map[string]bool{}
	for _, set := range s.Sets {
		for _, f := range set.Files {
			rewritten[f.Location] = true
		}
	}
	for _, set := range other.Sets {
		for _, f := range set.Files {
			if !rewritten[f.Location] {
				files = append(files, f)
			}
		}
	}
	return files
}

// WithKeysOf returns lists of files that may have the keys of some files, themselves included: a list for each group of
// partitions that may have the same keys. Files of older specs may have any keys, and are in every list.
func WithKeysOf(layout TableLayout, some, files []catalog.File) [][]catalog.File {
	s := &selecting{TableLayout: layout}
	lists, older := map[string][]catalog.File{}, []catalog.File(nil)
	for _, f := range some {
		if f.Spec == layout.Spec {
			lists[s.group(f.Partition)] = nil
		}
	}
	for _, f := range files {
		if f.Spec != layout.Spec {
			older = append(older, f)
			continue
		}
		group := s.group(f.Partition)
		if list, wanted := lists[group]; wanted {
			lists[group] = append(list, f)
		}
	}
	var out [][]catalog.File
	for _, group := range slices.Sorted(maps.Keys(lists)) {
		out = append(out, append(lists[group], older...))
	}
	return out
}

// ByWritten compares files by when they were written.
func ByWritten(a, b catalog.File) int {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Location, b.Location))
}

// selecting is one call of Select.
type selecting struct {
	TableLayout
	Options
	shared map[string][]catalog.File // files of the current spec that may have the same keys, by group, as written
	older  []catalog.File            // of older specs: they may have any keys
	out    FileSelection
}

// group returns the group of partitions that may have the same keys as one of the current spec.
func (s *selecting) group(partition []any) string {
	var values []any
	for i, p := range s.Specs[s.Spec] {
		if slices.Contains(s.Key, p.Source) {
			values = append(values, partition[i])
		}
	}
	return textOf(values)
}

// small reports whether a file is smaller than wanted.
func (s *selecting) small(f catalog.File) bool { return f.Bytes < s.FileBytes-s.FileBytes/4 }

// must reports whether a file is to be rewritten even if no other one is.
func (s *selecting) must(f catalog.File) bool {
	return !f.Deletes.None() || f.Spec != s.Spec || s.Order != 0 && f.SortOrder != s.Order
}

// wanted reports whether a file may be rewritten.
func (s *selecting) wanted(f catalog.File) bool {
	return (s.small(f) || s.must(f)) && (s.Leave == nil || !s.Leave(f))
}

// pays reports whether rewriting some files makes fewer or better ones.
func (s *selecting) pays(files []catalog.File) bool {
	bytes, small := int64(0), 0
	for _, f := range files {
		if s.must(f) {
			return true
		}
		bytes += f.Bytes
		if s.small(f) {
			small++
		}
	}
	return small >= max(s.MinFiles, 2) && (bytes+s.FileBytes-1)/s.FileBytes < int64(len(files))
}

// freely selects files of one partition, or of older specs, whatever their order.
func (s *selecting) freely(files []catalog.File, mixed bool) {
	var set RewriteSet
	end := func() {
		if len(set.Files) > 0 && s.pays(set.Files) {
			_, set.Sequence = span(set.Files)
			if set.Mixed = mixed; !mixed {
				set.Partition = set.Files[0].Partition
			}
			s.out.Sets = append(s.out.Sets, set)
		}
		set = RewriteSet{}
	}
	for _, f := range files {
		if !s.wanted(f) {
			continue
		}
		if len(set.Files) > 0 && set.Bytes()+f.Bytes > s.SetBytes {
			end()
		}
		set.Files = append(set.Files, f)
	}
	end()
}

// span returns the lowest sequence number of the rows of some files, and the highest that their
// rows or the equality deletes on them have.
func span(files []catalog.File) (low, high int64) {
	low = files[0].Sequence
	for _, f := range files {
		low, high = min(low, f.Sequence), max(high, f.Sequence)
		for _, g := range f.Deletes.Equality {
			for _, d := range g.After(f.Sequence) {
				high = max(high, d.Sequence)
			}
		}
	}
	return low, high
}

// commitsOf divides files into those of one sequence number.
func commitsOf(files []catalog.File) [][]catalog.File {
	var out [][]catalog.File
	for i, f := range files {
		if i == 0 || f.Sequence != files[i-1].Sequence {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], f)
	}
	return out
}
