package spill

import (
	"context"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// This file joins slices that do not fit in memory. Their staging rows are loaded in
// portions, one after the other; training rows are processed in rounds, and all portions
// are loaded for each round.

// writeWinners writes the matches of training rows if the rule chooses at most one staging row for
// each. It keeps the rows that win within each portion; the overall winners are among these rows. A
// round has as many training rows as fit in memory together with two staging rows each.
func (p *matchPass) writeWinners(ctx context.Context, training, staging portion, w *logWriter) error {
	return p.eachRound(training, 2*p.sliced.parts.rowSize(), func(round portion, store Store) error {
		return p.winnersRound(ctx, round, staging, store, w)
	})
}

// eachRound divides training rows into rounds that fit in memory, given the bytes that each row
// needs. It calls do with each round and a store for the round.
func (p *matchPass) eachRound(training portion, rowBytes int64, do func(round portion, store Store) error) error {
	for len(training) > 0 {
		round := training.upTo(p.working/sliceShare, func(x storedBatch) int64 { return rowBytes * x.rows })
		store, err := p.sliced.opts.Disk(p.sliced.spec.Name)
		if err != nil {
			return err
		}
		err = do(round, store)
		store.Release()
		if err != nil {
			return err
		}
		training = training[len(round):]
	}
	return nil
}

func (p *matchPass) winnersRound(ctx context.Context, training, staging portion, store Store, w *logWriter) error {
	winners := p.sliced.parts.emptyIn(store)
	err := p.eachPortion(ctx, staging, func(built *joiner.BuildSide, rows portion) error {
		wins := make([]bool, built.Rows())
		err := p.match(ctx, built, training, func(f *found) error {
			f.markWinners(wins)
			return nil
		})
		if err != nil {
			return err
		}
		return p.copyMarked(ctx, rows, wins, winners)
	})
	if err != nil {
		return err
	}
	built, err := p.load(ctx, winners, winners.parts[0].batches)
	if err != nil {
		return err
	}
	defer built.Release()
	p.spilled(store.Bytes())
	return p.writeMatches(ctx, built, training, w)
}

// markWinners marks the staging rows that are chosen for training rows. If a training row has
// several matches, it also marks the first and the last of them, so that the matches of all
// portions still show that there are several. It also marks a row that ties with the chosen row.
func (f *found) markWinners(wins []bool) {
	for i, ref := range f.refs {
		if ref == 0 {
			continue
		}
		wins[ref-1] = true
		if rows := f.Members(i); len(rows) > 1 {
			wins[rows[0]], wins[rows[len(rows)-1]] = true, true
		}
		if rival, ok := f.Rival(i); ok {
			wins[rival] = true
		}
	}
}

// copyMarked writes the marked rows of a portion.
func (p *matchPass) copyMarked(ctx context.Context, rows portion, marked []bool, to *Partitions) error {
	reader, err := p.sliced.parts.open(ctx, rows)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
		b := reader.RecordBatch()
		var keep []int32
		for i, is := range marked[:b.NumRows()] {
			if is {
				keep = append(keep, int32(i))
			}
		}
		marked = marked[b.NumRows():]
		if len(keep) == 0 {
			continue
		}
		segments := make([][]batch.Segment, b.NumCols())
		for i, column := range b.Columns() {
			segments[i] = []batch.Segment{{Values: column, Indices: keep}}
		}
		if err := p.appendRows(to, segments, len(keep)); err != nil {
			return err
		}
	}
	return reader.Err()
}

// eachPortion loads staging rows in order, in portions that fit in memory, and calls see with the
// build side of each portion. If a portion does not fit, it and all later portions are halved. If a
// single batch does not fit, eachPortion waits for memory.
func (p *matchPass) eachPortion(ctx context.Context, staging portion, see func(built *joiner.BuildSide, rows portion) error) error {
	waited := false
	for len(staging) > 0 {
		rows := staging.upTo(p.portion, func(x storedBatch) int64 { return x.bytes })
		built, err := p.load(ctx, p.sliced.parts, rows)
		switch {
		case err == nil:
		case fault.KindOf(err) != fault.Exhausted || waited:
			return err
		case len(rows) > 1:
			p.portion = rows.bytes() / 2
			continue
		default:
			waited = true
			if none := p.sliced.opts.Budget.Await(ctx, p.sliced.spec.Name, sliceShare*rows[0].bytes); none != nil {
				return err
			}
			continue
		}
		waited = false
		err = see(built, rows)
		built.Release()
		if err != nil {
			return err
		}
		staging = staging[len(rows):]
	}
	return nil
}
