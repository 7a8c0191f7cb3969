package fanout

import (
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stream"
)

// groupKey is everything that two streams must have in common, besides their places, to have
// equal steps.
type groupKey struct {
	Plan      string // its ID and what it reads
	Files     string
	Part      plan.Part
	Reading   dataset.Reading // of one shard, without what may differ
	BatchRows int
	Counts    *dataset.Counted // what cursors say of counted rows
	Checked   bool             // the stream fails if the rows differ from the counts
}

// mayDiffer removes from a reading what members of a group may have different: where they
// begin, where they end, and which steps they take.
func mayDiffer(r dataset.Reading) dataset.Reading {
	r.Cursor, r.Limit, r.Every = nil, 0, dataset.Every{Of: 1}
	return r
}

// keyOf returns the key of the groups that a stream may join.
func keyOf(p loader.Planned, o loader.StreamOptions) (string, error) {
	key := groupKey{Plan: p.ID, Files: p.FilesID, Part: o.Part, Reading: mayDiffer(p.Query.Reading), BatchRows: p.BatchRows}
	counts, err := stream.Known(p.Plan, p.Query.Reading, o.Counts)
	if err != nil {
		return "", err
	}
	if counts != nil && p.Inexact != "" {
		key.Counts, key.Checked = counts.Of(p.Query.Shard), p.Query.Limit == 0
	}
	return digest.Of(key), nil
}
