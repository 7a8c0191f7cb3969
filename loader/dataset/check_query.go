package dataset

import (
	"fmt"
	"strconv"

	"github.com/penstock/penstock/internal/fault"
)

// Check returns an Invalid error if fields of a query that are valid individually cannot
// be combined. The defaults of q must be set. Check covers the fields that select a part
// of a plan; the loader checks conditions that depend on the plan.
func (q Query) Check() error {
	var found []fault.Field
	add := func(name, format string, args ...any) {
		found = append(found, fault.Field{Field: name, Message: fmt.Sprintf(format, args...)})
	}
	if q.GlobalBatchRows != 0 {
		q.checkGlobal(add)
	}
	if q.BatchRequests != 0 || len(q.Cursor) > 0 && q.Cursor[0].Requests {
		q.checkRequests(add)
	}
	if q.Wire.Grouped() && q.BatchRequests == 0 {
		add("wire", "grouped sends one row per request, so batches are sized in requests; set batch_requests")
	}
	if q.Limit != 0 {
		switch {
		case q.Limit < 0:
			add("limit", "must be at least 1, not %d", q.Limit)
		case q.Shard.Of != 1:
			add("limit", "it counts the rows of one shard, but the query has %d shards; leave limit out, or read as one shard", q.Shard.Of)
		case q.Tail.Drops():
			add("limit", "it can end within a step, whose rows tail: drop would drop; leave limit out, or use tail: keep")
		case q.Every.Of > 1:
			add("limit", "it counts the rows of all steps, but every selects only some of them; leave limit or every out")
		case q.Endpoints.BySplits():
			add("limit", "the number of rows in the splits before an endpoint is unknown; leave limit out, or use endpoints: shards")
		}
	}
	if q.Endpoints.BySplits() {
		q.checkSplits(add)
	}
	return fault.Fields(found)
}

// checkSplits reports fields that cannot be combined with endpoints: splits.
func (q Query) checkSplits(add func(name, format string, args ...any)) {
	switch {
	case q.Shard.Of != 1:
		add("endpoints", "splits requires one shard, but the query has %d; leave shard out, or use endpoints: shards", q.Shard.Of)
	case q.Lanes != 1 && len(q.Cursor) > 0:
		add("endpoints", "splits requires a plan with one lane, but that of the cursor has %d; use endpoints: shards", q.Lanes)
	case q.Lanes != 1:
		add("endpoints", "splits requires a plan with one lane, but the query has %d; leave lanes out, or use endpoints: shards", q.Lanes)
	case q.Every.Of > 1:
		add("endpoints", "every divides one stream among DataLoader workers, but each endpoint of splits is a stream of its own; leave every out and assign the endpoints to workers, or use endpoints: shards")
	case q.Tail.Drops():
		add("endpoints", "splits returns every row of a split, but tail: drop drops rows; use tail: keep, or endpoints: shards")
	case q.Order.IsShuffled() && q.Shuffle != ShuffleSplits:
		add("endpoints", "splits cannot be read one by one if the windows of a shuffle have rows of several; use shuffle: splits, or endpoints: shards")
	}
}

// checkRequests reports fields that cannot be combined with batch_requests.
func (q Query) checkRequests(add func(name, format string, args ...any)) {
	const name = "batch_requests"
	windows, _ := q.Shuffle.Windows() // the loader reports an unknown shuffle
	switch {
	case q.BatchRequests == 0:
		add(name, "missing: the cursor counts requests, not rows; set the number of requests in a batch")
	case q.BatchRequests < 0:
		add(name, "must be at least 1, not %d", q.BatchRequests)
	case q.BatchRows != 0:
		add(name, "cannot be combined with batch_rows; set one of them")
	case q.GlobalBatchRows != 0:
		add(name, "cannot be combined with global_batch_rows; set one of them")
	case len(q.Cursor) > 0 && !q.Cursor[0].Requests:
		add(name, "the cursor counts rows, not requests; use batch_rows")
	case q.Limit != 0:
		add("limit", "it counts rows, but batch_requests returns all rows of each request; leave limit out, or use batch_rows")
	case windows && !q.Shuffle.ByRequest():
		add(name, "shuffle: %s separates the rows of a request; use shuffle: requests or splits", q.Shuffle)
	}
}

// checkGlobal reports faults of global_batch_rows.
func (q Query) checkGlobal(add func(name, format string, args ...any)) {
	const name = "global_batch_rows"
	switch rest := q.GlobalBatchRows % max(1, q.Lanes); {
	case q.GlobalBatchRows < 0:
		add(name, "must be at least 1, not %d", q.GlobalBatchRows)
	case q.BatchRows != 0:
		add(name, "cannot be combined with batch_rows; set one of them")
	case rest != 0:
		below, above := q.GlobalBatchRows-rest, q.GlobalBatchRows-rest+q.Lanes
		near := fmt.Sprintf("%d or %d", below, above)
		switch {
		case below == 0:
			near = strconv.Itoa(above)
		case above > MaxBatchRows:
			near = strconv.Itoa(below)
		}
		add(name, "%d rows per step cannot be divided among the %d lanes; use a multiple of %d, such as %s", q.GlobalBatchRows, q.Lanes, q.Lanes, near)
	}
}
