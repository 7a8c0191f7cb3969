package coverage

import (
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// maxListed is the maximum number of partitions that Entry.Empty lists.
const maxListed = 100

// Coverage counts the stored rows of a plan, before deletes, filters and joins, as JSON. They are those of the tables' metadata.
type Coverage struct {
	Axes
	Plan     string  `json:"plan"`  // its id
	Table    string  `json:"table"` // the training table
	Training Grid    `json:"training"`
	Staging  []Entry `json:"staging"` // in the order of the dataset
}

// Entry counts the rows of a staging table.
type Entry struct {
	Name     string `json:"name"`
	Table    string `json:"table"`
	Snapshot int64  `json:"snapshot,omitempty,string"`
	// Unread means that the query does not read the table, for example because its values are columns of the training table. Then there are no
	// counts.
	Unread bool  `json:"unread,omitempty"`
	Rows   int64 `json:"rows"` // of files that are joined with a training row, each file once
	// Joined has the rows of the files that are joined with the training rows of a place. A file that is joined in several places counts in
	// each of them, and Shared is true if there is one.
	Joined Grid `json:"joined,omitempty"`
	Shared bool `json:"shared,omitempty"`
	// Empty are the first partitions that have training rows and no staging row, EmptyParts is their number, and EmptyRows their training
	// rows.
	Empty      []string `json:"empty"`
	EmptyParts int      `json:"empty_parts"`
	EmptyRows  int64    `json:"empty_rows"`
	// Gaps are the buckets of other partitions that have training rows and no staging row.
	Gaps int `json:"gaps"`
}

// Of counts the rows of a plan.
func Of(p *plan.Plan) Coverage {
	of := placesOf(p)
	out := Coverage{Axes: of.Axes, Plan: p.ID, Table: p.Relation.Training.Name, Training: of.grid(), Staging: []Entry{}}
	for i := range p.Splits {
		at := of.cell(i)
		out.Training[at.part][at.bucket] += p.Splits[i].Rows
	}
	for i := range p.Staging {
		s := p.Relation.Staging[i]
		e := Entry{Name: s.Name, Table: s.Table, Snapshot: s.Pinned.Pin.Snapshot, Unread: p.Staging[i].Unread || s.Promoted != nil, Empty: []string{}}
		if !e.Unread {
			of.join(p, i, &e)
		}
		out.Staging = append(out.Staging, e)
	}
	return out
}

// join counts the rows of an entry.
func (a *places) join(p *plan.Plan, entry int, e *Entry) {
	e.Joined = a.grid()
	for _, f := range p.Staging[entry].Files() {
		e.Rows += f.Rows
	}
	counted := map[cell]map[int]bool{} // the groups that were counted, by place in the grid
	places := map[int]cell{}           // the last place of a group
	joined := map[cell]int64{}         // before neighbors count together
	training := map[cell]int64{}
	for i := range p.Splits {
		whole, at, group := a.splits[i], a.cell(i), p.Splits[i].Groups[entry]
		training[whole] += p.Splits[i].Rows
		if group == resolve.NoGroup {
			continue
		}
		rows := p.Staging[entry].Group(group).Rows
		if last, seen := places[group]; seen && last != at && rows > 0 {
			e.Shared = true
		}
		places[group] = at
		joined[whole] += rows
		if counted[at] == nil {
			counted[at] = map[int]bool{}
		}
		if !counted[at][group] {
			counted[at][group] = true
			e.Joined[at.part][at.bucket] += rows
		}
	}
	a.gaps(e, training, joined)
}

// gaps finds the partitions, and the buckets of other partitions, that have training rows and no staging row.
func (a *places) gaps(e *Entry, training, joined map[cell]int64) {
	type counts struct {
		rows, joined int64
		gaps         int
	}
	parts := make([]counts, len(a.partitions))
	for at, rows := range training {
		of := &parts[at.part]
		of.rows += rows
		of.joined += joined[at]
		if rows > 0 && joined[at] == 0 {
			of.gaps++
		}
	}
	for i, of := range parts {
		switch {
		case of.rows == 0:
		case of.joined > 0:
			e.Gaps += of.gaps
		default:
			e.EmptyParts++
			e.EmptyRows += of.rows
			if len(e.Empty) < maxListed {
				e.Empty = append(e.Empty, a.partitions[i])
			}
		}
	}
}
