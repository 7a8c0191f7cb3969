package dataset

import (
	"fmt"
	"strconv"

	"github.com/penstock/penstock/internal/fault"
)

// MaxBatchRows is the maximum number of rows or requests in a batch.
const MaxBatchRows = 1 << 24

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
		add("wire", "grouped sends a row for each request, in batches of whole ones; say how many with batch_requests")
	}
	if q.Limit != 0 {
		switch {
		case q.Limit < 0:
			add("limit", "must be at least 1, not %d", q.Limit)
		case q.Shard.Of != 1:
			add("limit", "it counts the rows of one shard, and the query reads of %d; leave limit out, or read as one shard", q.Shard.Of)
		case q.Tail.Drops():
			add("limit", "the rows of a last step that it cuts would be dropped; leave limit out, or use tail: keep")
		case q.Every.Of > 1:
			add("limit", "it counts the rows of all steps, and the query takes some of them; leave limit or every out")
		case q.Endpoints.BySplits():
			add("limit", "nobody knows how many rows the splits before an endpoint give; leave limit out, or use endpoints: shards")
		}
	}
	if q.Endpoints.BySplits() {
		switch {
		case q.Shard.Of != 1:
			add("endpoints", "splits are endpoints of one shard, and the query asks for %d; leave shard out, or use endpoints: shards", q.Shard.Of)
		case q.Lanes != 1 && len(q.Cursor) > 0:
			add("endpoints", "splits are endpoints of a plan with one lane, and the cursor's has %d; use endpoints: shards", q.Lanes)
		case q.Lanes != 1:
			add("endpoints", "splits are endpoints of a plan with one lane, and the query asks for %d; leave lanes out, or use endpoints: shards", q.Lanes)
		case q.Every.Of > 1:
			add("endpoints", "workers that take turns read one stream, and each endpoint of splits is one of its own; leave every out and hand out the endpoints, or use endpoints: shards")
		case q.Tail.Drops():
			add("endpoints", "each split ends with its last row, and tail: drop drops rows; use tail: keep, or endpoints: shards")
		}
	}
	return fault.Fields(found)
}

// checkRequests reports fields that cannot be combined with batch_requests.
func (q Query) checkRequests(add func(name, format string, args ...any)) {
	const name = "batch_requests"
	windows, _ := q.Shuffle.Windows() // the loader reports an unknown shuffle
	switch {
	case q.BatchRequests == 0:
		add(name, "missing: the lanes of the cursor gave equal requests; say how many a batch has")
	case q.BatchRequests < 0:
		add(name, "must be at least 1, not %d", q.BatchRequests)
	case q.BatchRows != 0:
		add(name, "batch_rows says how large batches are; give one of the two")
	case q.GlobalBatchRows != 0:
		add(name, "global_batch_rows says how large batches are; give one of the two")
	case len(q.Cursor) > 0 && !q.Cursor[0].Requests:
		add(name, "the lanes of the cursor gave equal rows; use batch_rows")
	case q.Limit != 0:
		add("limit", "it counts rows, and a batch of batch_requests has all rows of its requests; leave limit out, or use batch_rows")
	case windows && !q.Shuffle.ByRequest():
		add(name, "shuffle: %s takes the rows of a request apart; use shuffle: requests or splits", q.Shuffle)
	}
}

// checkGlobal reports faults of global_batch_rows.
func (q Query) checkGlobal(add func(name, format string, args ...any)) {
	const name = "global_batch_rows"
	switch rest := q.GlobalBatchRows % max(1, q.Lanes); {
	case q.GlobalBatchRows < 0:
		add(name, "must be at least 1, not %d", q.GlobalBatchRows)
	case q.BatchRows != 0:
		add(name, "batch_rows says how large batches are; give one of the two")
	case rest != 0:
		below, above := q.GlobalBatchRows-rest, q.GlobalBatchRows-rest+q.Lanes
		near := fmt.Sprintf("%d or %d", below, above)
		switch {
		case below == 0:
			near = strconv.Itoa(above)
		case above > MaxBatchRows:
			near = strconv.Itoa(below)
		}
		add(name, "%d rows of a step cannot be divided among the %d lanes; use a multiple of %d, such as %s", q.GlobalBatchRows, q.Lanes, q.Lanes, near)
	}
}
