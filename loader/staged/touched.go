package staged

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// chosenSplits are the splits from which the rows of a sample are drawn.
type chosenSplits struct {
	plan    loader.Planned // of the training table and the entry alone
	splits  []plan.Split
	touched bool // the change may have touched them; false: it can have touched no split
}

// chooseSplits returns at most sampledSplits splits, those with the newest training files among the
// splits that the change may have touched: the entry has other files for them than before. If there
// is no such split, they are the newest of all. If the files before are unknown, each split may have
// been touched.
func (c *readerCheck) chooseSplits(ctx context.Context, entry int) (chosenSplits, error) {
	after, err := c.planEntry(ctx, entry, c.change.Snapshot)
	all := chosenSplits{plan: after, touched: true}
	if err != nil {
		return all, err
	}
	all.splits = newestSplits(after.Splits)
	if c.change.Parent == 0 {
		return all, nil
	}
	before, err := c.planEntry(ctx, entry, c.change.Parent)
	if err != nil { // the snapshot may have been removed, or its schema may not fit the dataset
		return all, context.Cause(ctx)
	}
	if differ := splitsThatDiffer(before.Plan, after.Plan); len(differ) > 0 {
		all.splits = newestSplits(differ)
	} else {
		all.touched = false
	}
	return all, nil
}

// splitsThatDiffer returns the splits of a plan for which its only entry has other files than in an
// earlier plan, or other deletes of these files.
func splitsThatDiffer(before, after *plan.Plan) (out []plan.Split) {
	groups := map[string]int{}
	for _, s := range before.Splits {
		groups[s.ID] = s.Groups[0]
	}
	type pair struct{ before, after int }
	equal := map[pair]bool{} // splits share groups
	for _, s := range after.Splits {
		group, planned := groups[s.ID]
		of := pair{group, s.Groups[0]}
		if _, compared := equal[of]; planned && !compared {
			equal[of] = maps.Equal(deletesByFile(before.Staging[0].Group(of.before)), deletesByFile(after.Staging[0].Group(of.after)))
		}
		if !planned || !equal[of] {
			out = append(out, s)
		}
	}
	return out
}

// deletesByFile returns how many deletes apply to each file of a group. A commit only adds deletes to
// a file, or replaces them by one vector that is newer.
func deletesByFile(g plan.FileGroup) map[string][3]int64 {
	out := map[string][3]int64{}
	for _, f := range g.Files {
		out[f.Location] = deletesOf(f.Deletes)
	}
	return out
}

func deletesOf(d catalog.Deletes) (of [3]int64) {
	if d.Vector != nil {
		of[0] = d.Vector.Sequence
	}
	of[1] = int64(len(d.Positions))
	for _, g := range d.Equality {
		of[2] += int64(len(g.Files))
	}
	return of
}

// newestSplits returns at most sampledSplits of the splits, those with the newest files.
func newestSplits(splits []plan.Split) []plan.Split {
	newest := func(s plan.Split) (at int64) {
		for _, f := range s.Files {
			at = max(at, f.File.Sequence, int64(f.File.Rank))
		}
		return at
	}
	order := slices.SortedStableFunc(slices.Values(splits), func(a, b plan.Split) int { return cmp.Compare(newest(b), newest(a)) })
	return order[:min(len(order), sampledSplits)]
}
