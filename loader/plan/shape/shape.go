// Package shape describes how the rows of a plan are spread: over buckets, lanes and files. People see skew and small files in it.
// It does no I/O, and the size of a description is bounded.
package shape

import (
	"cmp"
	"slices"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// maxParts is the maximum number of buckets and of lanes in a description. If there are more, neighbors count together.
const maxParts = 128

// SmallFile is the size in bytes below which a file is small: opening it costs about as much as reading it.
const SmallFile = 8 << 20

// Shape describes a plan, as JSON. Counts are those of stored rows, before deletes, filters and joins.
type Shape struct {
	Plan     string   `json:"plan"` // its id
	Rows     int64    `json:"rows"`
	Splits   int      `json:"splits"`
	Training Files    `json:"training"`
	Buckets  []Bucket `json:"buckets"` // of the training table, in order; one if it has none
	Lanes    []Lane   `json:"lanes"`
	Staging  []Entry  `json:"staging"` // in the order of the dataset
}

// Files counts data files that the plan reads, each once.
type Files struct {
	Count int   `json:"count"`
	Small int   `json:"small"` // smaller than SmallFile
	Bytes int64 `json:"bytes"`
	Rows  int64 `json:"rows"`
}

// Bucket is the part of the plan that belongs to a bucket, or to several neighbors.
type Bucket struct {
	From int   `json:"from"` // the first bucket; -1: the bucket of nulls, or there are no buckets
	To   int   `json:"to"`   // the last bucket
	Rows int64 `json:"rows"`
	// Joined has, for each staging entry, how many staging rows are held when the largest split of the bucket is read.
	Joined []int64 `json:"joined"`
}

// Lane is a lane, or several neighbors.
type Lane struct {
	From int   `json:"from"`
	To   int   `json:"to"`
	Rows int64 `json:"rows"`
}

// Entry describes what the plan reads of a staging entry.
type Entry struct {
	Name   string `json:"name"`
	Unread bool   `json:"unread,omitempty"` // the query does not need it
	Groups int    `json:"groups"`           // file groups, each of which is read at once
	Files  Files  `json:"files"`
}

// Of describes a plan.
func Of(p *plan.Plan) Shape {
	out := Shape{Plan: p.ID, Rows: p.StoredRows, Splits: len(p.Splits), Buckets: bucketsOf(p), Lanes: []Lane{}, Staging: []Entry{}}
	var training []catalog.File
	seen := map[string]bool{}
	for i := range p.Splits {
		for _, f := range p.Splits[i].Files {
			if !f.Pruned && !seen[f.File.Location] {
				seen[f.File.Location] = true
				training = append(training, f.File)
			}
		}
	}
	out.Training = filesOf(training)
	for i := range p.Lanes {
		out.Lanes = append(out.Lanes, Lane{From: i, To: i, Rows: p.Lanes[i].Rows})
	}
	out.Lanes = merged(out.Lanes, func(into *Lane, next Lane) { into.To, into.Rows = next.To, into.Rows+next.Rows })
	for i := range p.Staging {
		s := &p.Staging[i]
		out.Staging = append(out.Staging, Entry{Name: p.Relation.Staging[i].Name, Unread: s.Unread, Groups: len(s.Groups), Files: filesOf(s.Files())})
	}
	return out
}

func filesOf(files []catalog.File) Files {
	var out Files
	for _, f := range files {
		out.Count++
		out.Bytes += f.Bytes
		out.Rows += f.Rows
		if f.Bytes < SmallFile {
			out.Small++
		}
	}
	return out
}

// bucketsOf describes the buckets of the training table.
func bucketsOf(p *plan.Plan) []Bucket {
	byID := map[int]*Bucket{}
	for i := range p.Splits {
		s := &p.Splits[i]
		id := s.Bucket.ID
		if s.Bucket.Of == 0 || s.Bucket.Null() {
			id = -1
		}
		b := byID[id]
		if b == nil {
			b = &Bucket{From: id, To: id, Joined: make([]int64, len(p.Staging))}
			byID[id] = b
		}
		b.Rows += s.Rows
		for entry, group := range s.Groups {
			b.Joined[entry] = max(b.Joined[entry], p.Staging[entry].Group(group).Rows)
		}
	}
	out := make([]Bucket, 0, len(byID))
	for _, b := range byID {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Bucket) int { return cmp.Compare(a.From, b.From) })
	return merged(out, func(into *Bucket, next Bucket) {
		into.To, into.Rows = next.To, into.Rows+next.Rows
		for entry := range into.Joined {
			into.Joined[entry] = max(into.Joined[entry], next.Joined[entry])
		}
	})
}

// merged adds neighbors to one another, so that at most maxParts remain.
func merged[P any](parts []P, add func(into *P, next P)) []P {
	each := (len(parts) + maxParts - 1) / maxParts
	if each <= 1 {
		return parts
	}
	out := make([]P, 0, maxParts)
	for i := range parts {
		if i%each == 0 {
			out = append(out, parts[i])
		} else {
			add(&out[len(out)-1], parts[i])
		}
	}
	return out
}
