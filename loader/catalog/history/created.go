package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// MayDrop returns nil if the table is dropped when main is moved back from a snapshot to none: main is
// at the snapshot, the oldest of its ancestors is that of the change that created the table, there is
// no other branch or tag, and Penstock made all snapshots. Otherwise it returns Conflict with the
// reason.
func (t *Table) MayDrop(snapshot int64) error {
	var first *Snapshot
	for s := range t.byID().ancestors(snapshot) {
		first = s
	}
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Conflict, "table %s cannot be dropped: %s", t.Name, fmt.Sprintf(format, args...)).In(t.Name, "").
			WithRemedy("look at the table's current state, and decide again")
	}
	switch {
	case first == nil || first.Parent != 0 || first.Summary[commit.SummaryCreated] == "":
		return refuse("snapshot %d does not begin with the change that created the table", snapshot)
	case t.Refs[commit.Main].Snapshot != snapshot:
		return refuse("main is not at snapshot %d", snapshot)
	case len(t.Refs) > 1:
		others := maps.Clone(t.Refs)
		delete(others, commit.Main)
		return refuse("it has other branches or tags: %s", strings.Join(slices.Sorted(maps.Keys(others)), ", "))
	}
	for _, s := range t.Snapshots {
		if s.Summary[commit.SummaryToken] == "" {
			return refuse("other writers committed snapshot %d", s.ID)
		}
	}
	return nil
}
