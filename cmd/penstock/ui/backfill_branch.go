package ui

import (
	"slices"
	"time"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
)

// maxCommits is the maximum number of snapshots of a branch that are compared with those of main.
const maxCommits = 1000

// branchState is how a branch with changes of Penstock relates to main.
type branchState struct {
	Table, Branch string
	Datasets      []string // that read the table
	// Head is the snapshot that the branch is at, and Main the one that main is at; 0: main has none.
	Head, Main int64
	// Changes are the changes that the branch is made of, the newest first: those that main lacks or, if main has them all, those that were
	// made on the branch.
	Changes   []history.Entry
	Behind    int  // snapshots of main that the branch lacks
	Published bool // main has all snapshots of the branch
	Unknown   bool // neither has the other's snapshot among its last maxCommits
}

// Publishable reports whether main can be moved to the branch.
func (b *branchState) Publishable() bool { return !b.Published && !b.Unknown && b.Behind == 0 }

// begun returns the time of the first change of a branch.
func (b *branchState) begun() time.Time { return b.Changes[len(b.Changes)-1].Time }

// ended returns the time of the last change of a branch.
func (b *branchState) ended() time.Time { return b.Changes[0].Time }

// compareBranch compares the log of a branch with the log of main. It returns nil if no change of Penstock made the branch.
func compareBranch(of history.Description, main, branch history.Log) *branchState {
	out := &branchState{Table: of.Table, Branch: branch.Branch, Datasets: of.Datasets}
	if len(branch.Snapshots) == 0 {
		return nil
	}
	out.Head = branch.Snapshots[0].Snapshot
	if len(main.Snapshots) > 0 {
		out.Main = main.Snapshots[0].Snapshot
	}
	inMain, inBranch := snapshotsOf(main), snapshotsOf(branch)
	out.Published = inMain[out.Head]
	if out.Published {
		out.Changes = madeOn(branch)
	} else {
		out.Changes = slices.DeleteFunc(slices.Clone(branch.Snapshots), func(e history.Entry) bool { return inMain[e.Snapshot] })
		for _, e := range main.Snapshots {
			if inBranch[e.Snapshot] {
				break
			}
			out.Behind++
		}
		// Without a common snapshot, all of main is counted. That is right only if both lists are complete.
		out.Unknown = out.Behind == len(main.Snapshots) && main.Older+branch.Older > 0
	}
	if !slices.ContainsFunc(out.Changes, func(e history.Entry) bool { return e.Token != "" }) {
		return nil
	}
	return out
}

func snapshotsOf(log history.Log) map[int64]bool {
	out := make(map[int64]bool, len(log.Snapshots))
	for _, e := range log.Snapshots {
		out[e.Snapshot] = true
	}
	return out
}

// madeOn returns the changes of a published branch that were made on it: those that can be taken back there, or else the last one.
func madeOn(branch history.Log) []history.Entry {
	n := 0
	for n < len(branch.Snapshots) && branch.Snapshots[n].Undo != nil {
		n++
	}
	return branch.Snapshots[:max(1, n)]
}

// branchNames returns the sorted names of the branches of a table other than main, given the log of main.
func branchNames(main history.Log) []string {
	var out []string
	for _, e := range main.Snapshots {
		out = append(out, e.Branches...)
	}
	for _, ref := range main.OtherRefs {
		if !ref.Tag {
			out = append(out, ref.Name)
		}
	}
	out = slices.DeleteFunc(out, func(name string) bool { return name == commit.Main })
	slices.Sort(out)
	return slices.Compact(out)
}
