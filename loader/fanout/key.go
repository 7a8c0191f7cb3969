package fanout

import (
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stream"
)

// groupKey holds everything, except their places, that two streams must have in common to share the
// rows of one reader.
type groupKey struct {
	Plan      string // its ID
	Tables    string // the plan's TablesID, since members may read different columns, and so different tables
	Part      plan.Part
	Reading   dataset.Reading  // the reading of one shard, without the parts that may differ
	BatchRows int              // 0: may differ
	Ahead     int64            // see keyOf; 0 if BatchRows may differ
	Counts    *dataset.Counted // the counted rows that the cursors contain
	Checked   bool             // the stream fails if the rows differ from the counts
	Withheld  []string         // the columns that the stream's client may not read
}

// mayDiffer removes from a reading the parts in which a group's reader and its members may differ:
// where they begin and end, which steps they return, their columns, their labels and, if they use
// the caches at all, how they use them. The size of batches is removed too, since the key has a
// separate field for it.
func mayDiffer(r dataset.Reading) dataset.Reading {
	r = r.Shared().WithBatchRows(0)
	r.Columns = nil
	if !r.Cache.Off() {
		r.Cache = ""
	}
	return r
}

// sizesMayDiffer reports whether batches of the stream can be parts of larger batches. They can if
// their rows are consecutive rows of one lane, and if the end of the stream does not depend on the
// size of batches.
func sizesMayDiffer(p loader.Planned) bool {
	return len(p.Lanes) == max(1, p.Query.Shard.Of) && !p.Rows.Requests && !p.Query.Tail.Drops()
}

// keyOf returns the key of the groups that a stream may join. ahead is the number of rows, or
// requests, that all steps before the stream would have per lane if they were whole steps, minus
// the number that each lane has returned.
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
