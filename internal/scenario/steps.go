package scenario

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// ReadAsWorkers is Read by so many DataLoader workers for each shard, whose batches come
// in turn. Workers that do not end where the others do are an error.
func ReadAsWorkers(ctx context.Context, l *loader.Loader, q dataset.Query, workers int) ([]Shard, error) {
	if workers <= 1 {
		return Read(ctx, l, q)
	}
	var of [][]Shard // by worker
	for w := range workers {
		q.Every = dataset.Every{Step: w, Of: workers}
		shards, err := Read(ctx, l, q)
		if err != nil {
			return nil, err
		}
		of = append(of, shards)
	}
	together := make([]Shard, len(of[0]))
	for i := range together {
		var err error
		if together[i], err = inTurn(of, i); err != nil {
			return nil, err
		}
	}
	return together, nil
}

// inTurn puts the batches of a shard together that its workers gave.
func inTurn(of [][]Shard, shard int) (Shard, error) {
	last := of[len(of)-1][shard]
	out := Shard{Schema: last.Schema, Report: last.Report}
	out.Report.Rows, out.Report.Batches, out.Report.Skipped = 0, 0, 0
	for w := range of {
		r := of[w][shard].Report
		if got, want := r.Cursor.JSON(), last.Report.Cursor.JSON(); !slices.Equal(got, want) || r.Steps != last.Report.Steps {
			return Shard{}, fmt.Errorf("worker %d of %d ends at %s, the last one at %s", w, len(of), got, want)
		}
		if all, steps := r.Rows+r.Skipped, last.Report.Rows+last.Report.Skipped; all != steps {
			return Shard{}, fmt.Errorf("worker %d of %d gave or left out %d rows, the last one %d", w, len(of), all, steps)
		}
		out.Report.Rows, out.Report.Batches = out.Report.Rows+r.Rows, out.Report.Batches+r.Batches
	}
	for step := range last.Report.Steps {
		from, at := of[step%int64(len(of))][shard], int(step/int64(len(of)))
		if at >= len(from.Batches) {
			return Shard{}, fmt.Errorf("step %d of %d is missing", step, last.Report.Steps)
		}
		out.Batches, out.Cursors = append(out.Batches, from.Batches[at]), append(out.Cursors, from.Cursors[at])
	}
	if int64(len(out.Batches)) != out.Report.Batches {
		return Shard{}, fmt.Errorf("%d batches in %d steps", out.Report.Batches, len(out.Batches))
	}
	return out, nil
}

// dropped says how a read with tail: drop differs from what it must be: every shard ends
// at the same step, the last that all lanes can fill, with full batches; what its rows
// lack of all rows is left over.
func (c *Case) dropped(want, got []string, shards []Shard) Difference {
	if surplus := Without(got, want); len(surplus) > 0 {
		return Difference{"rows that are none", fmt.Sprint(surplus)}
	}
	q, left, least := c.asked(), int64(0), int64(len(want))
	for _, s := range shards {
		if len(s.Batches) != len(shards[0].Batches) {
			return Difference{"shards end at other steps", fmt.Sprintf("%d and %d", len(s.Batches), len(shards[0].Batches))}
		}
		for _, b := range s.Batches {
			if full := perLane(q) * int64(len(s.Report.Cursor.At)); int64(len(b)) != full && (q.BatchRequests == 0 || int64(len(b)) < full) {
				return Difference{"a batch is not full", fmt.Sprintf("%d of %d rows", len(b), full)}
			}
		}
		lanes := len(s.Report.Cursor.At)
		for _, l := range s.Report.Leftover {
			left += l.Rows + l.Requests
			least = min(least, l.Rows+l.Requests)
		}
		if len(s.Report.Leftover) < lanes {
			least = 0
		}
	}
	missing := int64(len(want) - len(got))
	if q.BatchRequests > 0 && missing >= left && (left > 0 || missing == 0) {
		missing = left // a request has some rows
	}
	if missing != left || least >= perLane(q) {
		return Difference{"rows are not left over", fmt.Sprintf("%d are missing, %d left over, at least %d of each lane that gives %d in a step", missing, left, least, perLane(q))}
	}
	return Difference{}
}
