package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/resolve"
)

// byCommit compares files by the time at which they were written: by their sequence numbers, then,
// for files without sequence numbers, by the rank of their snapshots, and then by File.OrderedAs.
func byCommit(a, b catalog.File) int {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.OrderedAs(), b.OrderedAs()))
}

// unordered returns two files whose write order is unknown, if there are any.
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

// needsCommits reports whether it matters for an entry which of two staging rows was written first.
func needsCommits(s resolve.Staging) bool { return s.Join.Adds() && s.Duplicates.Choose() }

// ordersItself reports whether the entry orders the rows of a key, so that the write order only
// breaks ties. A custom strategy does not use the entry's order.
func ordersItself(s resolve.Staging) bool { return len(s.Order) > 0 && s.Custom == "" }

// Arrival holds the partly known order in which the files of a staging table were written. It
// implements joiner.Arrival.
type Arrival struct {
	what  string
	table *catalog.Table
	files map[string]catalog.File // by location
}

// Arrival returns the partly known order in which the files of a staging entry were written. It
// returns nil if the order is completely known, or does not matter.
func (p *Plan) Arrival(staging int) *Arrival {
	r := p.Relation.Staging[staging]
	if !needsCommits(r) || !ordersItself(r) {
		return nil
	}
	out := &Arrival{what: "duplicates: " + r.Duplicates.String(), table: r.Pinned, files: map[string]catalog.File{}}
	doubtful := false
	for _, group := range p.Staging[staging].Groups {
		_, _, found := unordered(group.Files)
		doubtful = doubtful || found
		for _, f := range group.Files {
			out.files[f.Location] = f
		}
	}
	if !doubtful {
		return nil
	}
	return out
}

// Known reports whether it is known which of two files was written first.
func (a *Arrival) Known(one, other string) bool {
	if one == other {
		return true
	}
	_, _, found := unordered([]catalog.File{a.files[one], a.files[other]})
	return !found
}

// Unknown returns the error for a key if it depends on the order of two files which row of the key
// is used, and the order is unknown.
func (a *Arrival) Unknown(key, one, other string) error {
	x, y := a.files[one], a.files[other]
	return fault.New(fault.Invalid, "%s must choose between rows of table %s with the key %s that order_by does not tell apart, and it is unknown which of their files %s (snapshot %d) and %s (snapshot %d) "+
		"was written first: they have no sequence numbers (format version 1), and a snapshot between them has expired",
		a.what, a.table.Name, key, one, x.Snapshot, other, y.Snapshot).In(a.table.Name, one).
		WithRemedy("add a column to order_by that tells these rows apart")
}

// Identity identifies the known part of the order. It is part of the identity of build sides that
// are made with this order.
func (a *Arrival) Identity() string {
	if a == nil {
		return ""
	}
	type ranked struct {
		location       string
		sequence, snap int64
		rank           int
	}
	type known struct {
		what  string
		files []ranked
	}
	all := known{what: a.what}
	for _, at := range slices.Sorted(maps.Keys(a.files)) {
		f := a.files[at]
		all.files = append(all.files, ranked{at, f.Sequence, f.Snapshot, f.Rank})
	}
	return digest.Of(all)
}

// checkCommits refuses files whose write order matters and is unknown. The error is Invalid. If the
// plan is pinned, the error is Expired, since the order was known when the pin was made.
func checkCommits(t *catalog.Table, files []catalog.File, pinned bool, what, remedy string) error {
	a, b, found := unordered(files)
	if !found {
		return nil
	}
	kind := fault.Invalid
	if pinned {
		kind = fault.Expired
	}
	return fault.New(kind, "%s depends on which row was written first, and for files %s (snapshot %d) and %s (snapshot %d) of table %s that is unknown: "+
		"they have no sequence numbers (format version 1), and a snapshot between them has expired", what, a.Location, a.Snapshot, b.Location, b.Snapshot, t.Name).
		In(t.Name, a.Location).
		WithRemedy("%s; rewriting these files does not restore the order in which they were written", remedy)
}

// checkGroup refuses a file group of an entry if the write order of the group's files is unknown,
// and the order determines which row of a key is used.
func checkGroup(r resolve.Staging, group FileGroup, pinned bool) error {
	if !needsCommits(r) || ordersItself(r) {
		return nil
	}
	return checkCommits(r.Pinned, group.Files, pinned, "duplicates: "+r.Duplicates.String(), "set order_by to columns that determine which row counts")
}

// Places maps the location of each file of a source to the file's position in the order in which
// the files were written. It returns nil if the source's files are already in that order. They
// always are if they have sequence numbers.
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
