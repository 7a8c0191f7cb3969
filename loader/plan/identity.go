package plan

import (
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/dataset"
)

// identity is all that a plan depends on, and what came out of it, so that two
// servers that disagree are found out before a row is sent. It has nothing that
// two equal plans may differ in.
type identity struct {
	Algorithm   int
	Dataset     string // its digest
	Pin         pinIdentity
	Filter      string // of the query, canonical
	Sample      string // canonical
	Order       dataset.Order
	Shuffle     dataset.Shuffle
	Seed, Epoch int64
	Lanes       [][]rangeIdentity
	FileGroups  [][][]string // per staging table and file group: the locations of its files
	// Written is per split in which order distinct takes its files, by location,
	// where that is another than the order of their rows (Source.Places).
	Written []map[string]int64
}

// rangeIdentity is one range of a lane, and what its split is joined with.
type rangeIdentity struct {
	Split    string // its ID, which names its files
	From, To int64
	Groups   []int // as Split.Groups
}

// sinceIdentity is the identity of a plan that reads the rows after a snapshot
// alone. It stands apart so that the plans of all rows keep the ids that cursors
// and tickets have of them.
type sinceIdentity struct {
	Plan  identity
	Since int64
}

// windowIdentity is the identity of a plan whose rows are permuted within windows,
// apart for the same reason.
type windowIdentity struct {
	Plan          identity
	Since, Window int64
}

// requestsIdentity is the identity of a plan whose lanes give equal requests.
type requestsIdentity struct {
	Plan          identity
	Since, Window int64
	Requests      bool // always
}

// pinIdentity is a pin.
type pinIdentity struct {
	Training tableIdentity
	Staging  map[string]tableIdentity
}

// tableIdentity is what a pin fixes of one table.
type tableIdentity struct {
	Table    string // its uuid; behind it the name mapping, if one is pinned, so that plans without have the ids that they always had
	Snapshot int64
	Schema   int
}

func identityOf(p dataset.Pin) pinIdentity {
	out := pinIdentity{Training: tableIdentityOf(p.Training), Staging: make(map[string]tableIdentity, len(p.Staging))}
	for name, table := range p.Staging {
		out.Staging[name] = tableIdentityOf(table)
	}
	return out
}

func tableIdentityOf(p dataset.TablePin) tableIdentity {
	table := p.UUID
	if p.Mapping != dataset.NoMapping {
		table += "\x00" + p.Mapping // no uuid has such a byte
	}
	return tableIdentity{Table: table, Snapshot: p.Snapshot, Schema: p.Schema}
}

// idDigits is how many hexadecimal digits of its digest a plan's id has.
const idDigits = 32

func (p *Plan) id() string {
	switch {
	case p.Requests:
		return digest.Of(requestsIdentity{Plan: p.identity(), Since: p.Since, Window: p.Window, Requests: true})[:idDigits]
	case p.Window != 0:
		return digest.Of(windowIdentity{Plan: p.identity(), Since: p.Since, Window: p.Window})[:idDigits]
	case p.Since != 0:
		return digest.Of(sinceIdentity{Plan: p.identity(), Since: p.Since})[:idDigits]
	}
	return digest.Of(p.identity())[:idDigits]
}

func (p *Plan) identity() identity {
	out := identity{
		Algorithm: p.Algorithm, Dataset: p.Digest, Pin: identityOf(p.Pin), Filter: p.QueryFilter, Sample: p.SampleText,
		Order: p.Order, Shuffle: p.Shuffle, Seed: p.Seed, Epoch: p.Epoch,
		Lanes: make([][]rangeIdentity, len(p.Lanes)), FileGroups: make([][][]string, len(p.Staging)),
	}
	for i, l := range p.Lanes {
		for _, r := range l.Ranges {
			split := p.Splits[r.Split]
			out.Lanes[i] = append(out.Lanes[i], rangeIdentity{Split: split.ID, From: r.From, To: r.To, Groups: split.Groups})
		}
	}
	for i, s := range p.Staging {
		for _, group := range s.Groups {
			locations := make([]string, len(group.Files))
			for k, f := range group.Files {
				locations[k] = f.Location
			}
			out.FileGroups[i] = append(out.FileGroups[i], locations)
		}
	}
	if p.Relation.Distinct != nil {
		for i, split := range p.Splits {
			out.Written = append(out.Written, p.Training(Range{Split: i, To: split.Rows}).Places())
		}
	}
	return out
}
