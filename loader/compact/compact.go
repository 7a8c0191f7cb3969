// Package compact chooses the files of a table that are rewritten together. It uses no catalog,
// storage or clock: it maps a listing of files to a selection.
//
// Files are rewritten if they are small, have deletes, have an older partition spec, or do not
// declare the table's sort order. Files that are rewritten together form a RewriteSet: files of one
// partition, or files of older specs.
//
// Some reads depend on the order in which rows were written: by sequence number, then by the
// location of the file and the position in it. Unless Options.AnyOrder is set, a selection keeps
// this order among the rows of each key:
//
//   - A set has consecutive files of its partition, and its rows get one sequence number.
//   - No other file that may share keys has a sequence number between those of the set. Files of
//     other partitions may share keys, unless the partitions differ in a field of the key.
//   - Rows with equal keys have equal sort keys, so that sorting does not move them apart.
//
// Files that cannot be rewritten under these rules stay, and FileSelection.Kept lists them.
//
// A row whose key occurs once has no order to keep. If the caller knows that all keys of a
// partition occur once (Options.Once), its files are rewritten in any order.
package compact

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
)

// TableLayout describes the new files of a table.
type TableLayout struct {
	Specs map[int]catalog.Spec
	Spec  int // id of the current one
	// Key has the field ids of columns whose values are equal in all rows of a key.
	Key []int
	// Sort has the field ids of the columns that rows are sorted by.
	Sort []int
	// Order is the id of the sort order that new files declare; 0: they declare none.
	Order int
	// Folder returns the folder of new files of a partition of the current spec, without a trailing
	// slash.
	Folder func(partition []any) string
}

// Options controls which files are rewritten.
type Options struct {
	// MinFiles is the minimum number of small files in a set that has no other reason to be
	// rewritten.
	MinFiles int
	// FileBytes is the target size of files. Files below three quarters of it are small.
	FileBytes int64
	// SetBytes is the maximum size of a set of several files. If equality deletes on the files of a
	// set also apply to later files, the limit is WideSet times larger.
	SetBytes int64
	// AnyOrder allows rewrites to change the order of the rows of a key.
	AnyOrder bool
	// Once reports whether it is known that each key of a file occurs in only one row of the table.
	// Nil means that this is not known for any file. Partitions with only such files are rewritten
	// in any order.
	Once func(f catalog.File) bool
	// Leave reports whether a file must not be rewritten. If it is nil, every file may be
	// rewritten.
	Leave func(f catalog.File) bool
}

// WideSet is the factor by which a set may exceed Options.SetBytes if the equality deletes on its
// files also apply to later files. New files get the sequence number of the equality deletes that
// were applied to their rows, so all files to which these deletes apply must be rewritten together.
const WideSet = 16

// RewriteSet is a set of files whose rows become new files, sorted together.
type RewriteSet struct {
	// Files are in the order in which they were written.
	Files []catalog.File
	// Partition is the partition of all their rows in the current spec, unless Mixed is true: then
	// the files have older specs, and their rows may belong to any partition.
	Partition []any
	Mixed     bool
	// Sequence is the data sequence number of the new files; 0: the number of the new snapshot. The
	// equality deletes that were applied to the rows do not apply to files with this number.
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

// FileSelection has the files of a table to rewrite.
type FileSelection struct {
	Sets []RewriteSet
	// Kept has the files that stay only because a rewrite would change the order of the rows of a
	// key. Options.AnyOrder would rewrite them.
	Kept []catalog.File
}

// First returns the first sets of different partitions whose total size is at most a number of
// bytes, but at least one set. It returns a Mixed set alone.
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

// textOf returns a string that identifies the values of a partition.
func textOf(partition []any) string { return string(catalog.AppendPartition(nil, partition)) }

// Select selects the files to rewrite from all data files of a snapshot.
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

// without returns the files that are in the other selection but not in this one.
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

// WithKeysOf returns the files that may share keys with some files, including these files. It
// returns one list for each group of partitions that may share keys. Every list includes the files
// of older specs, because they may have any key.
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

// ByWritten compares files by the order in which they were written.
func ByWritten(a, b catalog.File) int {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.OrderedAs(), b.OrderedAs()))
}

// selecting is one call of Select.
type selecting struct {
	TableLayout
	Options
	shared map[string][]catalog.File // files of the current spec by group of partitions that may share keys, in written order
	older  []catalog.File            // files of older specs, which may have any key
	out    FileSelection
}

// group identifies the partitions that may share keys with a partition of the current spec.
func (s *selecting) group(partition []any) string {
	var values []any
	for i, p := range s.Specs[s.Spec] {
		if slices.Contains(s.Key, p.Source) {
			values = append(values, partition[i])
		}
	}
	return textOf(values)
}

// small reports whether a file is well below the target size.
func (s *selecting) small(f catalog.File) bool { return f.Bytes < s.FileBytes-s.FileBytes/4 }

// must reports whether a file should be rewritten even alone.
func (s *selecting) must(f catalog.File) bool {
	return !f.Deletes.None() || f.Spec != s.Spec || s.Order != 0 && f.SortOrder != s.Order
}

// wanted reports whether a file may be rewritten.
func (s *selecting) wanted(f catalog.File) bool {
	return (s.small(f) || s.must(f)) && (s.Leave == nil || !s.Leave(f))
}

// pays reports whether rewriting some files reduces their number or improves one of them.
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

// freely selects files of one partition, or of older specs, without regard to their order.
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

// span returns the lowest sequence number of some files, and the highest sequence number of these
// files and of the equality deletes that apply to them.
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

// commitsOf groups sorted files by sequence number.
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
