package stream

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/shuffle"
)

// minSearched is the number of rows that the first search for the border of a request reads. Each
// further search reads twice as many.
const minSearched = 256

// toRequests moves the borders of a section to borders of requests, if windows must not divide
// requests. A request then belongs to the section that has its first row.
func (r *permutedRun) toRequests(ctx context.Context, of *joined.SectionSpec) error {
	if !r.whole() {
		return nil
	}
	for _, border := range []*int64{&of.Rows.From, &of.Rows.To} {
		at, err := r.border(ctx, of.Rows.Split, *border)
		if err != nil {
			return err
		}
		*border = at
	}
	of.Scanned = of.Rows
	if r.spec.Plan.Relation.Distinct != nil {
		of.Scanned = r.lane.Ranges[of.Index]
	}
	return nil
}

// border returns the border of a request nearest to a row of a split: the first row, at or after
// the given row, that does not belong to the request of the last row before the given row.
func (r *permutedRun) border(ctx context.Context, split int, row int64) (int64, error) {
	end := r.spec.Plan.Splits[split].Rows
	if row == 0 || row == end {
		return row, nil
	}
	key := plan.Range{Split: split, From: row}
	if at, ok := r.borders[key]; ok {
		return at, nil
	}
	before, err := r.lastBefore(ctx, split, row)
	if err != nil {
		return 0, err
	}
	at := row
	if before.Found {
		if at, err = r.firstOther(ctx, plan.Range{Split: split, From: row, To: end}, before); err != nil {
			return 0, err
		}
	}
	r.borders[key] = at
	return at, nil
}

// lastBefore returns the last row before the given row of a split that passes deletes, filters and
// sample.
func (r *permutedRun) lastBefore(ctx context.Context, split int, row int64) (shuffle.StoredRow, error) {
	for rows := r.searchedRows(split); row > 0; rows *= 2 {
		at := plan.Range{Split: split, From: max(0, row-rows), To: row}
		found, err := r.search(ctx, at, shuffle.LastRow)
		if err != nil || found.Found {
			return found, err
		}
		row = at.From
	}
	return shuffle.StoredRow{}, nil
}

// firstOther returns the first row in a range that does not belong to the request of the row
// before, or the end of the range if there is no such row.
func (r *permutedRun) firstOther(ctx context.Context, in plan.Range, before shuffle.StoredRow) (int64, error) {
	for rows := r.searchedRows(in.Split); in.From < in.To; rows *= 2 {
		at := plan.Range{Split: in.Split, From: in.From, To: min(in.To, in.From+rows)}
		found, err := r.search(ctx, at, func(rows array.RecordReader, seed uint64) (shuffle.StoredRow, error) {
			return shuffle.FirstOther(rows, seed, before)
		})
		if err != nil {
			return 0, err
		}
		if found.Found {
			return found.Row, nil
		}
		in.From = at.To
	}
	return in.To, nil
}

// searchedRows returns the number of rows that the first search reads: minSearched, or all rows of
// the split if splits are read as a whole in any case.
func (r *permutedRun) searchedRows(split int) int64 {
	if r.spec.Plan.Relation.Distinct != nil {
		return r.spec.Plan.Splits[split].Rows
	}
	return minSearched
}

// search calls find with the keys of some training rows, and returns its result.
func (r *permutedRun) search(ctx context.Context, at plan.Range, find func(rows array.RecordReader, seed uint64) (shuffle.StoredRow, error)) (shuffle.StoredRow, error) {
	rows, err := r.sequences.joined.KeyRows(ctx, at)
	if err != nil {
		return shuffle.StoredRow{}, err
	}
	defer rows.Release()
	return find(rows, r.spec.Plan.ShuffleSeed(at.Split))
}
