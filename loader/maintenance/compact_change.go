package maintenance

import (
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// changeOf returns the change that replaces the old files with the new ones.
func (g *compactGroup) changeOf(added []commit.DataFile) (commit.Change, error) {
	state := g.target.State
	out := commit.Change{
		Table: g.name, UUID: state.Table.Pin.UUID, Branch: g.request.Branch, Token: g.token,
		Mode: commit.Rewrite, Add: added, Base: state.Table.Pin.Snapshot,
		Summary: map[string]string{commit.SummaryCommand: "compact"},
	}
	sequences, rows, mixed := map[string]int64{}, int64(0), int64(-1)
	var removed []catalog.File
	for _, set := range g.sets {
		sequences[partitionText(set.Partition)] = set.Sequence
		if set.Mixed {
			mixed = set.Sequence
		}
		rows += set.Rows()
		removed = append(removed, set.Files...)
	}
	for _, f := range removed {
		out.Remove = append(out.Remove, f.Location)
	}
	for i := range added {
		sequence, ok := sequences[partitionText(added[i].Partition)]
		if mixed >= 0 {
			sequence, ok = mixed, true
		}
		if !ok {
			return out, fault.New(fault.Corrupt, "files of table %s have rows of another partition than theirs", g.request.Table).In(g.request.Table, "").
				WithRemedy("run penstock verify; rewrite the table's files with the program that wrote them")
		}
		added[i].Sequence = sequence
		out.DroppedRows -= added[i].Rows
	}
	out.DroppedRows += rows
	for i, f := range removed {
		if all, ok := g.listed[f.Location]; ok {
			removed[i].Deletes = all
		}
	}
	out.RemoveDeletes = removableDeletes(g.files, removed)
	return out, nil
}

// partitionText returns a text that identifies the values of a partition.
func partitionText(values []any) string { return string(catalog.AppendPartition(nil, values)) }

// removableDeletes returns the delete files that apply only to removed files. It omits deletion
// vectors, which are removed with their data files.
func removableDeletes(all, removed []catalog.File) []string {
	going, applies := map[string]bool{}, map[string]bool{}
	for _, f := range removed {
		going[f.Location] = true
		for _, d := range f.Deletes.All(f.Sequence) {
			if d.Kind != catalog.DeletionVector {
				applies[d.Location] = true
			}
		}
	}
	if len(applies) == 0 {
		return nil
	}
	for _, f := range all {
		if going[f.Location] {
			continue
		}
		for _, d := range f.Deletes.All(f.Sequence) {
			delete(applies, d.Location)
		}
	}
	var out []string
	for location := range applies {
		out = append(out, location)
	}
	slices.Sort(out)
	return out
}
