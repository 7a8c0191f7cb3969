package catalog

import (
	"slices"

	"github.com/penstock/penstock/loader/dataset"
)

// Operation is the kind of change that a snapshot made to its table's files, according to its summary.
type Operation string

// The operations of the Iceberg specification.
const (
	OpAppend    Operation = "append"    // added rows
	OpReplace   Operation = "replace"   // moved existing rows to other files
	OpOverwrite Operation = "overwrite" // removed rows, and may have added some
	OpDelete    Operation = "delete"    // removed rows
)

// After returns the snapshots after since, up to the pinned one, oldest first; none if
// since is the pinned one. The function parent is as in NewChain. It returns Invalid if
// since is no ancestor, and Expired if a snapshot in between no longer exists.
func After(table string, since, pinned int64, parent func(snapshot int64) (int64, bool)) ([]int64, error) {
	var after []int64 // newest first
	if pinned == dataset.NoSnapshot {
		return nil, NotAnAncestor(table, since, nil, 0)
	}
	seen := map[int64]bool{}
	for at := pinned; at != since; {
		above, known := parent(at)
		if !known {
			return nil, ExpiredSince(table, at, since)
		}
		after, seen[at] = append(after, at), true
		if above == 0 || seen[above] {
			return nil, apart(table, since, after, parent)
		}
		at = above
	}
	slices.Reverse(after)
	return after, nil
}

// apart returns the failure of a since that is not among the ancestors of the pinned
// snapshot. The ancestors are given newest first, and the last has no parent. Some writers
// remove the parent of a snapshot when that expires. So a since that no longer exists, or
// that descends from another first snapshot, may have been an ancestor.
func apart(table string, since int64, ancestors []int64, parent func(snapshot int64) (int64, bool)) error {
	if _, known := parent(since); !known {
		return ExpiredSince(table, since, since)
	}
	seen := map[int64]bool{}
	for at := since; !seen[at]; {
		seen[at] = true
		above, known := parent(at)
		switch {
		case known && above == 0:
			return ForgottenParent(table, ancestors[len(ancestors)-1], since)
		case !known:
			return NotAnAncestor(table, since, ancestors, 0)
		case slices.Contains(ancestors, above):
			return NotAnAncestor(table, since, ancestors, above)
		}
		at = above
	}
	return NotAnAncestor(table, since, ancestors, 0)
}
