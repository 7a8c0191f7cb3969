package loader

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/shuffle"
)

// windowStart holds the counts of the rows before a window.
type windowStart struct {
	window  int64
	counts  []joiner.Counts
	divided int64
}

// openShuffled opens a range whose rows are permuted within windows, at the beginning
// of the window that contains the lane's position.
func (s *ranges) openShuffled(ctx context.Context, number int, from lane.Position) (lane.Sequence, error) {
	of := turn{number, from.Range}
	whole := s.plan.Lanes[number].Ranges[from.Range]
	at := whole
	at.From += from.Window * s.plan.Rows.ShuffleWindow
	read := s.readOf(whole, at.From)
	var permuted *shuffle.Shuffle
	var o *openRange
	crossed := func(window int64) {
		o.starts = append(o.starts, windowStart{window: window, counts: o.joined.Counts(), divided: permuted.Divided()})
	}
	o, err := s.join(ctx, of, at, func(ctx context.Context) (Rows, error) {
		rows, err := s.rows(ctx, of, read)
		if err != nil {
			return nil, err
		}
		permuted, err = shuffle.New(rows.Schema(), shuffle.Options{
			Rows: s.plan.Rows.ShuffleWindow, First: whole.From, Start: from.Window, Seed: s.plan.ShuffleSeed(whole.Split), Key: s.requestKey, Whole: s.plan.Rows.Requests,
			Crossed: crossed, GiveWay: s.giveWay, Memory: s.options.Memory, Budget: s.options.Budget,
		})
		if err != nil {
			rows.Release()
			return nil, err
		}
		return &laterRows{RecordReader: permuted.Training(ctx, rows), of: rows, left: permuted}, nil
	})
	if err != nil {
		return nil, err
	}
	o.shuffle = permuted
	final := batch.FromFunc(o.joined.Schema(), o.next, o.release)
	joined := shuffle.Joined{
		Ordinal: len(s.kept), Priority: len(s.kept) + 1, Begins: o.begins, Skip: from.Row, BatchRows: s.batchRows,
	}
	if s.requests != nil {
		joined.Requests = new(s.requestColumn())
	}
	return permuted.Windows(ctx, final, joined)
}

// readOf returns the rows to read of a range whose rows are returned from one on.
func (s *ranges) readOf(whole plan.Range, from int64) plan.Range {
	read := plan.Range{Split: whole.Split, From: from, To: whole.To}
	switch {
	case s.plan.Rows.ShuffleWindow == 0:
	case s.plan.Relation.Distinct != nil:
		read = whole // repeated rows are known only after reading all rows
	case s.plan.Rows.Requests:
		read.From = max(whole.From, from-s.plan.Rows.ShuffleWindow) // to know which requests of the previous window continue
	case len(s.requestKey) > 0 && from > 0:
		read.From-- // to know whether the previous row has the same request
	}
	return read
}

// laterRows are the rows of a scan without some of the first.
type laterRows struct {
	array.RecordReader
	of   Rows
	left *shuffle.Shuffle
}

// Files implements Rows.
func (r *laterRows) Files() func(row int64) string {
	files := r.of.Files()
	return func(row int64) string { return files(row + r.left.Left()) }
}

// begins drops the counts before windows that were already returned.
func (o *openRange) begins(window int64) {
	o.starts = slices.DeleteFunc(o.starts, func(s windowStart) bool { return s.window < window })
}

// before returns the counts of the rows before the window that contains the lane's
// position.
func (o *openRange) before(window int64) windowStart {
	for _, s := range o.starts {
		if s.window >= window {
			return s
		}
	}
	return windowStart{counts: o.joined.Counts(), divided: o.shuffle.Divided()}
}
