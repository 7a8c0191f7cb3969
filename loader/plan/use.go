package plan

import "github.com/penstock/penstock/loader/resolve"

// Use says how a plan uses one staging table, in bytes of files.
type Use struct {
	Classes int   // distinct classes that some split needs
	Once    int64 // bytes read if a class is kept, in memory or on local disk, until its last split
	Read    int64 // bytes read if a class is read again by each run of splits that need it, in the plan's order
	Largest Class // the one with the most bytes
	Stored  int64 // bytes of the files that some split needs, each once
}

// Amplification is bytes read over bytes stored where classes are kept; 1 if
// nothing is read.
func (u Use) Amplification() float64 { return ratio(u.Once, u.Stored) }

// Worst is bytes read over bytes stored where classes are never kept.
func (u Use) Worst() float64 { return ratio(u.Read, u.Stored) }

func ratio(read, stored int64) float64 {
	if stored == 0 {
		return 1
	}
	return float64(read) / float64(stored)
}

// decoded is how much larger rows are in memory than in their files, roughly:
// compression, encodings and the index together.
const decoded = 4

// Memory estimates what the class takes while it is joined, in bytes. It is a
// guess to choose by: what comes out must not depend on it.
func (c Class) Memory() int64 { return decoded * c.Bytes }

// ClassUse computes how the plan uses staging table i.
func (p *Plan) ClassUse(i int) Use {
	var u Use
	seen, stored := map[int]bool{}, map[string]bool{}
	last := resolve.NoClass
	for _, split := range p.Splits {
		number := split.Classes[i]
		if number == resolve.NoClass || number == last {
			continue
		}
		last = number
		class := p.Staging[i].Classes[number]
		u.Read += class.Bytes
		if seen[number] {
			continue
		}
		seen[number] = true
		u.Classes++
		u.Once += class.Bytes
		if class.Bytes >= u.Largest.Bytes {
			u.Largest = class
		}
		for _, f := range class.Files {
			if !stored[f.Location] {
				stored[f.Location] = true
				u.Stored += f.Bytes
			}
		}
	}
	return u
}
