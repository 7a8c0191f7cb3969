package plan

import (
	"cmp"
	"slices"

	"github.com/penstock/penstock/loader/resolve"
)

// StagingUse describes how a plan uses one staging table, in bytes of files.
type StagingUse struct {
	Groups  int       // the number of distinct file groups that splits need
	Once    int64     // the bytes that are read if each group is kept, in memory or on local disk, until the last split that needs it
	Read    int64     // the bytes that are read if groups are not kept: each sequence of splits with the same group, in the plan's order, reads the group again
	Largest FileGroup // the group with the most bytes
	AtOnce  int       // the maximum number of groups with which a lane is joined at the same time
	Stored  int64     // the bytes of the files that splits need; each file counts once
}

// Amplification returns the bytes read divided by the bytes stored, if file groups are kept. It is
// 1 if nothing is read.
func (u StagingUse) Amplification() float64 { return ratio(u.Once, u.Stored) }

// Worst returns the bytes read divided by the bytes stored, if file groups are never kept.
func (u StagingUse) Worst() float64 { return ratio(u.Read, u.Stored) }

func ratio(read, stored int64) float64 {
	if stored == 0 {
		return 1
	}
	return float64(read) / float64(stored)
}

// Decoded is roughly the ratio of the size of rows in memory to their size in files. It includes
// the effects of compression, encodings and the index.
const Decoded = 4

// Memory estimates how many bytes the file group takes while it is joined. The estimate may
// determine strategies, but results must not depend on it.
func (g FileGroup) Memory() int64 { return Decoded * g.Bytes }

// Memory estimates how many bytes the groups of a lane take at the same time.
func (u StagingUse) Memory() int64 { return int64(u.AtOnce) * u.Largest.Memory() }

// groupsAtOnce returns the maximum number of file groups of a staging table with which a lane is
// joined at the same time. It is 1 if rows are not permuted within windows. Otherwise it counts the
// groups of all sections with rows in a window or in the preceding window, whose rows the consumer
// may still use.
func (p *Plan) groupsAtOnce(staging int) int {
	most := 1
	if p.Rows.ShuffleWindow == 0 {
		return most
	}
	for lane := range p.Lanes {
		for _, r := range p.Runs(lane) {
			most = max(most, groupsOfWindows(p.Splits, &r, staging))
		}
	}
	return most
}

// groupsOfWindows returns the maximum for one run, see groupsAtOnce.
func groupsOfWindows(splits []Split, r *Run, staging int) int {
	type change struct {
		window int64
		begins bool
		group  int
	}
	var changes []change
	for part := range r.Parts {
		for _, s := range r.Sections(part, 0) {
			if group := splits[s.Rows.Split].Groups[staging]; group != resolve.NoGroup {
				first, last := r.WindowOf(part, s, s.Rows.From), r.WindowOf(part, s, s.Rows.To-1)
				changes = append(changes, change{first, true, group}, change{last + 2, false, group})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.window, b.window) })
	most, open := 0, map[int]int{}
	for i, c := range changes {
		if c.begins {
			open[c.group]++
		} else if open[c.group]--; open[c.group] == 0 {
			delete(open, c.group)
		}
		if i+1 == len(changes) || changes[i+1].window > c.window {
			most = max(most, len(open))
		}
	}
	return most
}

// StagingUse computes how the plan uses staging table i.
func (p *Plan) StagingUse(i int) StagingUse {
	u := StagingUse{AtOnce: p.groupsAtOnce(i)}
	seen, stored := map[int]bool{}, map[string]bool{}
	last := resolve.NoGroup
	for _, split := range p.Splits {
		number := split.Groups[i]
		if number == resolve.NoGroup || number == last {
			continue
		}
		last = number
		group := p.Staging[i].Groups[number]
		u.Read += group.Bytes
		if seen[number] {
			continue
		}
		seen[number] = true
		u.Groups++
		u.Once += group.Bytes
		if group.Bytes >= u.Largest.Bytes {
			u.Largest = group
		}
		for _, f := range group.Files {
			if !stored[f.Location] {
				stored[f.Location] = true
				u.Stored += f.Bytes
			}
		}
	}
	return u
}
