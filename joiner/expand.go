package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// expandRows is the maximum number of rows of a batch with repeated training rows:
// it bounds the memory of a huge product.
const expandRows = 1 << 14

// expansion iterates over the result of a training batch whose rows are repeated: once
// for each combination of matches. It is at one combination of one training row.
type expansion struct {
	record arrow.RecordBatch // valid until the training stream's next
	drop   []bool
	row    int     // in record
	nth    []int32 // by probe: which of the row's matches is next

	// The next batch of the result, by row.
	rows   []int32   // in record
	picked [][]int32 // by probe: which of the row's matches; nil if the probe repeats no rows
}

// expand returns the next batch of the expansion, or nil at its end.
func (j *join) expand(ctx context.Context) (arrow.RecordBatch, error) {
	e := j.expansion
	if err := ctx.Err(); err != nil {
		return nil, fault.Op(err, "join")
	}
	if e.nth == nil {
		e.nth, e.picked = make([]int32, len(j.probes)), make([][]int32, len(j.probes))
	}
	e.fill(j.probes)
	if len(e.rows) == 0 {
		j.expansion = nil
		return nil, nil
	}
	return j.expandedBatch(ctx, e)
}

// fill chooses the rows of the next batch.
func (e *expansion) fill(probes []*probe) {
	e.rows = e.rows[:0]
	for i := range e.picked {
		e.picked[i] = e.picked[i][:0]
	}
	rows := int(e.record.NumRows())
	for e.row < rows && len(e.rows) < expandRows {
		if e.drop != nil && e.drop[e.row] {
			e.row++
			continue
		}
		e.rows = append(e.rows, int32(e.row))
		for i, p := range probes {
			if p.repeats() {
				e.picked[i] = append(e.picked[i], e.nth[i])
			}
		}
		if e.advance(probes) {
			e.row++
		}
	}
}

// advance goes to the row's next combination of matches, the last probe's varying
// fastest. It reports whether that was the last one; then it is at the first again.
func (e *expansion) advance(probes []*probe) (last bool) {
	for i := len(probes) - 1; i >= 0; i-- {
		if !probes[i].repeats() {
			continue
		}
		e.nth[i]++
		if e.nth[i] < probes[i].matches.Counts[e.row] {
			return false
		}
		e.nth[i] = 0
	}
	return true
}

// repeats reports whether the probe repeats rows of the current batch.
func (p *probe) repeats() bool { return p.Rule.Multiplies() && p.matches.Counts != nil }

// expandedBatch returns the batch of the chosen rows.
func (j *join) expandedBatch(ctx context.Context, e *expansion) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, j.schema.NumFields())
	buffers := make([]*memory.Buffer, 0, len(j.probes))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
		for _, b := range buffers {
			b.Release()
		}
	}()
	expanded := make([]references, len(j.probes))
	for i, p := range j.probes {
		buffer, refs := newRefs(len(e.rows), j.mem)
		buffers = append(buffers, buffer)
		expanded[i] = references{p.matches.Dictionary, refs}
		if p.repeats() {
			var err error
			if expanded[i].dictionary, err = p.matcher.Expand(ctx, e.rows, e.picked[i], refs); err != nil {
				return nil, fault.Op(err, "join %s", p.Rule.Name)
			}
			continue
		}
		for k, row := range e.rows {
			refs[k] = p.refs[row]
		}
	}
	for i, at := range j.in.Columns {
		column, err := j.expandedColumn(e, i, e.record.Column(at), expanded)
		if err != nil {
			return nil, fault.Op(err, "repeat training column %s", j.schema.Field(i).Name)
		}
		columns = append(columns, column)
	}
	for i, p := range j.probes {
		columns = append(columns, p.dictionary(buffers[i], expanded[i].dictionary, len(e.rows)))
	}
	return array.NewRecordBatch(j.schema, columns, int64(len(e.rows))), nil
}

// expandedColumn returns a training column of the result.
func (j *join) expandedColumn(e *expansion, at int, column arrow.Array, expanded []references) (arrow.Array, error) {
	if len(j.overlays[at]) > 0 {
		return j.overlayColumn(column, e.rows, j.overlays[at], expanded)
	}
	return batch.Take(column, e.rows, j.mem)
}
