package fanout

import (
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stream"
)

// groupKey is everything that two streams must have in common, besides their places, to share the
// rows of one reader.
type groupKey struct {
	Plan      string // its ID
	Tables    string // and its TablesID: members may read other columns, and so other tables
	Part      plan.Part
	Reading   dataset.Reading  // of one shard, without what may differ
	BatchRows int              // 0: may differ
	Ahead     int64            // see keyOf; 0 if BatchRows may differ
	Counts    *dataset.Counted // what cursors say of counted rows
	Checked   bool             // the stream fails if the rows differ from the counts
	Withheld  []string         // columns that its client may not read
}

// mayDiffer removes the parts of a reading in which a group's reader and its members may differ: where
// they begin, where they end, which steps they take, their columns, their labels, and, if all use the caches, how. The size of
// batches is a part of the key of its own.
func mayDiffer(r dataset.Reading) dataset.Reading {
	r = r.Shared().WithBatchRows(0)
	r.Columns = nil
	if !r.Cache.Off() {
		r.Cache = ""
	}
	return r
}

// sizesMayDiffer reports whether a batch of the stream can be a part of a larger one: if its rows
// are consecutive rows of one lane, and the end does not depend on the size.
func sizesMayDiffer(p loader.Planned) bool {
	return len(p.Lanes) == max(1, p.Query.Shard.Of) && !p.Rows.Requests && !p.Query.Tail.Drops()
}

// keyOf returns the key of the groups that a stream may join. ahead is the number of rows, or
// requests, of the steps before the stream as whole steps, without those that each lane has returned.
func keyOf(p loader.Planned, o loader.StreamOptions, ahead int64) (string, error) {
	key := groupKey{Plan: p.ID, Tables: p.TablesID, Withheld: p.Relation.Withheld(), Part: o.Part, Reading: mayDiffer(p.Query.Reading)}
	if !sizesMayDiffer(p) {
		key.BatchRows, key.Ahead = p.BatchRows, ahead
	}
	counts, err := stream.Known(p.Plan, p.Query.Reading, o.Counts)
	if err != nil {
		return "", err
	}
	if counts != nil && p.Inexact != "" {
		key.Counts, key.Checked = counts.Of(p.Query.Shard), p.Query.Limit == 0
	}
	return digest.Of(key), nil
}
