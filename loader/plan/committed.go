package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// byCommit compares files by what was written first. Files have their usual
// order (sequence number, location) save where there are no sequence numbers:
// then the rank of their snapshots comes before their location.
func byCommit(a, b catalog.File) int {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Location, b.Location))
}

// unordered finds two files of which nobody knows which was written first.
func unordered(files []catalog.File) (a, b catalog.File, found bool) {
	var before, ranked, off []catalog.File
	for _, f := range files {
		switch {
		case f.Sequence != 0:
		case f.Rank == catalog.BeforeRanks:
			before = append(before, f)
		case f.Rank == catalog.Unranked:
			off = append(off, f)
		default:
			ranked = append(ranked, f)
		}
	}
	for _, pair := range [][2][]catalog.File{{before, before}, {off, off}, {off, ranked}, {off, before}} {
		for _, x := range pair[1] {
			if len(pair[0]) > 0 && pair[0][0].Snapshot != x.Snapshot {
				return pair[0][0], x, true
			}
		}
	}
	return a, b, false
}

// needsCommits says whether it matters for an entry which of two staging rows
// was written first.
func needsCommits(s resolve.Staging) bool { return s.Join.Adds() && s.Duplicates.Choose() }

// checkCommits refuses files whose order matters and is not known: Invalid, or
// Expired where the plan is that of an earlier query, which had known it.
func checkCommits(t *catalog.Table, files []catalog.File, q dataset.Query, what string) error {
	a, b, found := unordered(files)
	if !found {
		return nil
	}
	kind := fault.Invalid
	if q.Snapshots != nil || len(q.Cursor) > 0 {
		kind = fault.Expired
	}
	return fault.New(kind, "%s goes by which row was written first, and of files %s (snapshot %d) and %s (snapshot %d) of table %s nobody knows that: "+
		"they have no sequence numbers (format version 1), and a snapshot between them has expired", what, a.Location, a.Snapshot, b.Location, b.Snapshot, t.Name).
		In(t.Name, a.Location).
		WithRemedy("rewrite the older files together (rewrite_data_files), so that one snapshot holds them, or take another rule than first or last")
}

// Places numbers the files of a source, by location, in the order in which they
// were written. It is nil if they stand in that order already, as they do
// wherever files have sequence numbers.
func (s Source) Places() map[string]int64 {
	files := s.files()
	if slices.IsSortedFunc(files, byCommit) {
		return nil
	}
	slices.SortFunc(files, byCommit)
	places := make(map[string]int64, len(files))
	for i, f := range files {
		places[f.Location] = int64(i)
	}
	return places
}

func (s Source) files() []catalog.File {
	files := make([]catalog.File, len(s.Files))
	for i, f := range s.Files {
		files[i] = f.File
	}
	return files
}
