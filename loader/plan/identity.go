package plan

import (
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/dataset"
)

// identity is all that the rows of a plan and their order depend on, and the splits and
// lanes that came out of it, so that two servers that disagree are found out before a row
// is sent. It has nothing in which two plans of the same rows may differ.
type identity struct {
	Algorithm int
	Rows      string // digest of the plan's Rows, with the pins of the tables that decide rows
	Lanes     [][]rangeIdentity
	// Written is per split the order in which distinct takes its files, by location, if
	// that is not the order of their rows (Source.Places).
	Written []map[string]int64
}

// rangeIdentity is one range of a lane.
type rangeIdentity struct {
	Split    string // its ID, which names its files
	From, To int64
}

// filesIdentity is all that a plan reads.
type filesIdentity struct {
	Plan       string       // its ID
	Dataset    string       // digest
	Rows       string       // digest of the plan's Rows, with the pins of all tables
	FileGroups [][][]string // per staging table and file group: the locations of its files
	Groups     [][]int      // per split: its file group of each staging table
}

// idDigits is how many hexadecimal digits of a digest an id has.
const idDigits = 32

// setIDs sets ID and FilesID from the rest of the plan.
func (p *Plan) setIDs() {
	p.ID = digest.Of(p.identity())[:idDigits]
	p.FilesID = digest.Of(p.filesIdentity())[:idDigits]
}

func (p *Plan) identity() identity {
	out := identity{Algorithm: Algorithm, Rows: p.decidingRows().Digest(), Lanes: make([][]rangeIdentity, len(p.Lanes))}
	for i, l := range p.Lanes {
		for _, r := range l.Ranges {
			out.Lanes[i] = append(out.Lanes[i], rangeIdentity{Split: p.Splits[r.Split].ID, From: r.From, To: r.To})
		}
	}
	if p.Relation.Distinct != nil {
		for i, split := range p.Splits {
			out.Written = append(out.Written, p.Training(Range{Split: i, To: split.Rows}).Places())
		}
	}
	return out
}

// decidingRows returns the plan's Rows without the pins of the staging tables that neither
// drop nor repeat rows, and that the query's filter does not name.
func (p *Plan) decidingRows() dataset.Rows {
	rows := p.Rows
	rows.Pin.Staging = map[string]dataset.TablePin{}
	for i, s := range p.Relation.Staging {
		if p.decides(i) {
			rows.Pin.Staging[s.Name] = s.Pinned.Pin
		}
	}
	return rows
}

func (p *Plan) filesIdentity() filesIdentity {
	out := filesIdentity{Plan: p.ID, Dataset: p.Digest, Rows: p.Rows.Digest()}
	for _, s := range p.Staging {
		groups := make([][]string, len(s.Groups))
		for i, group := range s.Groups {
			for _, f := range group.Files {
				groups[i] = append(groups[i], f.Location)
			}
		}
		out.FileGroups = append(out.FileGroups, groups)
	}
	for _, split := range p.Splits {
		out.Groups = append(out.Groups, split.Groups)
	}
	return out
}
