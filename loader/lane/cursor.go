package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// cursor walks one lane.
type cursor struct {
	Lane
	open   Open
	at     Position
	reader array.RecordReader // of piece at.Piece, nil if not open
	batch  arrow.RecordBatch  // borrowed from reader, nil if none
	used   int                // rows of batch that were given
}

func newCursor(l Lane, open Open) *cursor {
	c := &cursor{Lane: l, open: open, at: l.Start}
	c.advance()
	return c
}

// take gives up to n rows of the lane as runs; fewer only at the lane's end.
func (c *cursor) take(ctx context.Context, n int64, runs *[]run) (int64, error) {
	taken := int64(0)
	for taken < n && c.at.Range < len(c.Ranges) {
		if err := c.fill(ctx); err != nil {
			return 0, fault.Op(err, "read piece %d of lane %d", c.at.Range, c.Number)
		}
		if c.batch == nil {
			continue
		}
		rows := min(int(n-taken), int(c.batch.NumRows())-c.used)
		c.batch.Retain()
		*runs = append(*runs, run{batch: c.batch, from: c.used, rows: rows})
		c.used += rows
		c.at.Row += int64(rows)
		taken += int64(rows)
		if c.complete() && c.used < int(c.batch.NumRows()) {
			return 0, fault.New(fault.Corrupt, "piece %d of lane %d has more rows than the %d that were planned", c.at.Range, c.Number, c.at.Row)
		}
		c.advance()
	}
	return taken, c.look(ctx)
}

// look finds out whether the lane has another row where the plan cannot tell,
// so that a cursor never stands before an end that nobody has seen: shards
// that ended at different steps can then be told from shards that were stopped
// at different steps.
func (c *cursor) look(ctx context.Context) error {
	for c.at.Range < len(c.Ranges) && c.Ranges[c.at.Range] == Unknown && (c.batch == nil || c.used == int(c.batch.NumRows())) {
		if err := c.fill(ctx); err != nil {
			return fault.Op(err, "read piece %d of lane %d", c.at.Range, c.Number)
		}
	}
	return nil
}

// fill sees to it that batch has a row that was not given; batch is nil after
// it where the piece has ended and the next one is up.
func (c *cursor) fill(ctx context.Context) error {
	if c.batch != nil && c.used < int(c.batch.NumRows()) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.reader == nil {
		reader, err := c.open(ctx, c.Number, c.at.Range, c.at.Row)
		if err != nil {
			return err
		}
		c.reader = reader
	}
	c.batch, c.used = nil, 0
	for c.reader.Next() {
		if c.reader.RecordBatch().NumRows() > 0 {
			c.batch = c.reader.RecordBatch()
			return nil
		}
	}
	if err := c.reader.Err(); err != nil {
		return err
	}
	if want := c.Ranges[c.at.Range]; want != Unknown {
		return fault.New(fault.Corrupt, "the piece ended after %d rows, %d were planned", c.at.Row, want)
	}
	c.close()
	c.at = Position{Range: c.at.Range + 1}
	return nil
}

// advance moves a lane that has given all rows of a piece, where their number
// is known, to the start of the next.
func (c *cursor) advance() {
	for c.complete() {
		c.close()
		c.at = Position{Range: c.at.Range + 1}
	}
	invariant.Check(c.at.Range <= len(c.Ranges), "lane %d stands behind its end", c.Number)
}

func (c *cursor) complete() bool {
	return c.at.Range < len(c.Ranges) && c.Ranges[c.at.Range] != Unknown && c.at.Row >= c.Ranges[c.at.Range]
}

// close releases the open piece, if there is one.
func (c *cursor) close() {
	if c.reader != nil {
		c.reader.Release()
	}
	c.reader, c.batch, c.used = nil, nil, 0
}
