package plan

import (
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/dataset"
)

// identity contains everything that determines the rows of a plan and their order, and the
// resulting splits and lanes. If two servers disagree on the plan, their identities differ, and
// this is detected before a row is sent. The identity contains nothing that may differ between two
// plans of the same rows.
type identity struct {
	Algorithm int
	Rows      string // digest of the plan's Rows, including the pins of only those tables that affect the rows
	Lanes     [][]rangeIdentity
	// Written has, for each split, the order in which the files of the split were written
	// (Source.Places), if repeated rows are dropped by that order. It is nil for a split whose
	// files are in that order already.
	Written []map[string]int64
}

// rangeIdentity is one range of a lane.
type rangeIdentity struct {
	Split    string // the split's ID, which names its files
	From, To int64
}

// tablesIdentity is the state of all tables of a plan.
type tablesIdentity struct {
	Plan    string // the plan's ID
	Dataset string // the dataset's digest
	Rows    string // digest of the plan's Rows, including the pins of all tables
}

// filesIdentity is everything that a plan reads.
type filesIdentity struct {
	Tables     tablesIdentity
	FileGroups [][][]string // for each staging table and file group: the locations of the group's files
	Groups     [][]int      // for each split: its file group in each staging table
}

// idDigits is the number of hexadecimal digits of a digest in an id.
const idDigits = 32

// setIDs computes ID, TablesID and FilesID from the rest of the plan.
func (p *Plan) setIDs() {
	p.ID = digest.Of(identityOf(p))[:idDigits]
	p.TablesID = digest.Of(tablesOf(p))[:idDigits]
	p.FilesID = digest.Of(filesOf(p))[:idDigits]
}

func identityOf(p *Plan) identity {
	out := identity{Algorithm: p.Algorithm, Rows: p.decidingRows().Digest(), Lanes: make([][]rangeIdentity, len(p.Lanes))}
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

// decidingRows returns the plan's Rows without the pins of staging tables that do not affect the
// rows: they neither drop nor repeat rows, and the query's filter does not name them.
func (b *Bound) decidingRows() dataset.Rows {
	rows := b.Rows
	rows.Pin.Staging = map[string]dataset.TablePin{}
	for i, s := range b.Relation.Staging {
		if b.decides(i) {
			rows.Pin.Staging[s.Name] = s.Pinned.Pin
		}
	}
	return rows
}

func tablesOf(p *Plan) tablesIdentity {
	return tablesIdentity{Plan: p.ID, Dataset: p.Digest, Rows: p.Rows.Digest()}
}

func filesOf(p *Plan) filesIdentity {
	out := filesIdentity{Tables: tablesOf(p)}
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
