package plan

import "github.com/penstock/penstock/loader/resolve"

// StagingUse describes how a plan uses one staging table, in bytes of files.
type StagingUse struct {
	Groups  int       // distinct file groups that some split needs
	Once    int64     // bytes read if each group is kept, in memory or on local disk, until its last split
	Read    int64     // bytes read if each run of splits, in the plan's order, reads its group again
	Largest FileGroup // the one with the most bytes
	Stored  int64     // bytes of the files that some split needs, each once
}

// Amplification returns the bytes read over the bytes stored if file groups are kept; 1
// if nothing is read.
func (u StagingUse) Amplification() float64 { return ratio(u.Once, u.Stored) }

// worst returns the bytes read over the bytes stored if file groups are never kept.
func (u StagingUse) worst() float64 { return ratio(u.Read, u.Stored) }

func ratio(read, stored int64) float64 {
	if stored == 0 {
		return 1
	}
	return float64(read) / float64(stored)
}

// decoded is roughly the ratio of the size of rows in memory to their size in files:
// compression, encodings and the index together.
const decoded = 4

// Memory estimates the bytes that the file group takes while it is joined. Strategies are
// chosen by it, but no result may depend on it.
func (g FileGroup) Memory() int64 { return decoded * g.Bytes }

// StagingUse computes how the plan uses staging table i.
func (p *Plan) StagingUse(i int) StagingUse {
	var u StagingUse
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
