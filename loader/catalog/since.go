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

// After returns the snapshots after since, up to and including the pinned snapshot, oldest first.
// It returns none if since is the pinned snapshot. The function parent is as in NewChain. After
// returns Invalid if since is not an ancestor of the pinned snapshot, and Expired if a snapshot
// after since no longer exists.
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

// apart returns the error for a snapshot since that is not among the known ancestors of the pinned
// snapshot. The ancestors are ordered newest first, and the last one has no parent. Some writers
// delete the parent's id from a snapshot when the parent expires. So since may have been an
// ancestor if it no longer exists, or if it descends from another snapshot without a parent: the
// error is then Expired.
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
