package metadata

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// At returns the id of the snapshot that a branch is at. It returns 0 if the branch does not exist,
// and for main of a table without snapshots.
func (m *Loaded) At(branch string) (int64, error) {
	s, err := m.Head(branch)
	if fault.KindOf(err) == fault.NotFound {
		return 0, nil
	}
	return IDOf(s), err
}

// SnapshotName returns the text for a snapshot in errors. The id 0 stands for no snapshot.
func SnapshotName(id int64) string {
	if id == 0 {
		return "no snapshot"
	}
	return "snapshot " + strconv.FormatInt(id, 10)
}

// Parent returns the id of the parent of a snapshot, or 0 if it has none. It returns false if the
// snapshot no longer exists.
func (m *Loaded) Parent(id int64) (int64, bool) {
	s := m.SnapshotByID(id)
	if s == nil || s.ParentSnapshotID == nil {
		return 0, s != nil
	}
	return *s.ParentSnapshotID, true
}

// Head returns the snapshot that a branch is at. It returns nil for main of a table without
// snapshots.
func (m *Loaded) Head(branch string) (*icetable.Snapshot, error) {
	if err := m.UnknownRef(branch); err != nil {
		return nil, err
	}
	refs := maps.Collect(m.Refs())
	ref, ok := refs[branch]
	switch {
	case !ok && branch == icetable.MainBranch:
		return m.CurrentSnapshot(), nil
	case !ok:
		return nil, catalog.UnknownRef(m.Name, branch, slices.Sorted(maps.Keys(refs)))
	case ref.SnapshotRefType != icetable.BranchRef:
		return nil, fault.InvalidField("branch", "%s is a tag of table %s, and cannot be committed to", branch, m.Name).In(m.Name, "").
			WithRemedy("name a branch")
	}
	s := m.SnapshotByID(ref.SnapshotID)
	if s == nil {
		return nil, fault.New(fault.Corrupt, "%s of table %s points to snapshot %d, which does not exist", branch, m.Name, ref.SnapshotID).In(m.Name, m.File.Location)
	}
	return s, nil
}

// IDOf returns the id of a snapshot, or 0 if s is nil.
func IDOf(s *icetable.Snapshot) int64 {
	if s == nil {
		return 0
	}
	return s.SnapshotID
}

// Ancestors returns a snapshot and its ancestors, newest first. It ends at a snapshot without a
// parent, or before the first ancestor that no longer exists.
func (m *Loaded) Ancestors(s *icetable.Snapshot) iter.Seq[*icetable.Snapshot] {
	return func(yield func(*icetable.Snapshot) bool) {
		at := s
		for range len(m.Snapshots()) { // bounded, in case the parents form a cycle
			if at == nil || !yield(at) || at.ParentSnapshotID == nil {
				return
			}
			at = m.SnapshotByID(*at.ParentSnapshotID)
		}
	}
}
