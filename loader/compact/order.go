package compact

import (
	"slices"
	"sort"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
)

// runs selects files of a partition of the current spec, so that rows of a key stay in the order
// in which they were written. Files of one sequence number are rewritten together or not at all.
func (s *selecting) runs(files []catalog.File) {
	r := &fileRun{selecting: s, own: files, group: s.shared[s.group(files[0].Partition)]}
	for _, commit := range commitsOf(files) {
		switch {
		case !slices.ContainsFunc(commit, s.wanted) || s.Leave != nil && slices.ContainsFunc(commit, s.Leave):
			r.end()
			continue
		case len(r.files) > 0 && !r.extends(commit):
			r.end()
		}
		r.files = append(r.files, commit...)
	}
	r.end()
}

// fileRun has consecutive files of a partition, in the order in which they were written.
type fileRun struct {
	*selecting
	own   []catalog.File // all files of the partition
	group []catalog.File // all files of the current spec that may share keys, including own
	files []catalog.File
}

// extends reports whether the files of the next sequence number can be added to the run. They can
// if the run then does not exceed the size limit, and no file of another partition has a sequence
// number in between.
func (r *fileRun) extends(commit []catalog.File) bool {
	all := slices.Concat(r.files, commit)
	low, high := span(all)
	limit := r.SetBytes
	if _, reach := span(r.files); reach > r.files[len(r.files)-1].Sequence && reach >= commit[0].Sequence {
		limit *= WideSet
	}
	return RewriteSet{Files: all}.Bytes() <= limit && r.others(low, high) == 0
}

// others returns the number of files of other partitions that may share keys and have sequence
// numbers in a range.
func (r *fileRun) others(low, high int64) int {
	return between(r.group, low, high) - between(r.own, low, high) + between(r.older, low, high)
}

// between returns the number of files with sequence numbers in a range.
func between(files []catalog.File, low, high int64) int {
	first := sort.Search(len(files), func(i int) bool { return files[i].Sequence >= low })
	return sort.Search(len(files), func(i int) bool { return files[i].Sequence > high }) - first
}

// end ends the run. It selects the run's files if rewriting them pays and keeps the order.
func (r *fileRun) end() {
	files := r.files
	r.files = nil
	if len(files) == 0 || !r.pays(files) {
		return
	}
	low, high := span(files)
	if !r.keeps(files, low, high) {
		return
	}
	r.out.Sets = append(r.out.Sets, RewriteSet{Files: files, Partition: files[0].Partition, Sequence: high})
}

// keeps reports whether the rows of each key stay in order if some files of the partition are
// rewritten with the sequence number high.
func (r *fileRun) keeps(files []catalog.File, low, high int64) bool {
	switch {
	case high == 0: // files without sequence numbers are ordered by their snapshots
		return false
	case !r.together() && (len(files) > 1 || r.Order == 0 || files[0].SortOrder != r.Order):
		return false
	case between(r.own, low, high) != len(files):
		return false
	}
	return r.others(low, high) == 0 || low == high && r.inPlace(files, high)
}

// together reports whether rows of a key have equal sort keys.
func (s *selecting) together() bool {
	for _, id := range s.Sort {
		if !slices.Contains(s.Key, id) {
			return false
		}
	}
	return true
}

// inPlace reports whether the new files take the places of the old files when all files with their
// sequence number are ordered by location. They do if all old files are in the folder of the new
// files, and no file of another partition with this sequence number is in that folder, below it, or
// in a folder above it.
func (r *fileRun) inPlace(files []catalog.File, sequence int64) bool {
	folder := r.Folder(files[0].Partition) + "/"
	for _, f := range files {
		if folderOf(f.Location) != folder {
			return false
		}
	}
	if between(r.older, sequence, sequence) > 0 {
		return false
	}
	first := sort.Search(len(r.group), func(i int) bool { return r.group[i].Sequence >= sequence })
	mine := textOf(files[0].Partition)
	for _, f := range r.group[first:] {
		if f.Sequence > sequence {
			break
		}
		other := folderOf(f.Location)
		if textOf(f.Partition) != mine && (strings.HasPrefix(other, folder) || strings.HasPrefix(folder, other)) {
			return false
		}
	}
	return true
}

// folderOf returns the folder of a file, with a trailing slash.
func folderOf(location string) string { return location[:strings.LastIndexByte(location, '/')+1] }

// commits selects files of older specs, keeping all files of a sequence number together. The order
// stays if each key is in one partition of the current spec, and no other file has the sequence
// number.
func (s *selecting) commits(older []catalog.File) {
	for _, files := range commitsOf(older) {
		if s.Leave != nil && slices.ContainsFunc(files, s.Leave) {
			continue
		}
		low, high := span(files)
		others := between(older, low, high) - len(files)
		for _, group := range s.shared {
			others += between(group, low, high)
		}
		if high == 0 || others > 0 || !s.together() || !s.divides() {
			continue
		}
		s.out.Sets = append(s.out.Sets, RewriteSet{Files: files, Mixed: true, Sequence: high})
	}
}

// divides reports whether the key determines the partition in the current spec.
func (s *selecting) divides() bool {
	return !slices.ContainsFunc(s.Specs[s.Spec], func(p catalog.PartitionField) bool { return !slices.Contains(s.Key, p.Source) })
}
