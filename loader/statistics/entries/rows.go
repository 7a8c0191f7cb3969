package entries

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/stream"
)

// readAll describes all rows of the dataset.
func (d *describing) readAll(ctx context.Context) (stream.Report, error) {
	rows, err := d.Loader.Open(ctx, d.planned, loader.StreamOptions{})
	if err != nil {
		return stream.Report{}, err
	}
	defer rows.Release()
	for rows.Next() {
		if err := d.add(ctx, rows.RecordBatch()); err != nil {
			return stream.Report{}, err
		}
		if d.request.Progress != nil {
			d.request.Progress(d.read, d.planned.StoredRows)
		}
	}
	if err := rows.Err(); err != nil {
		return stream.Report{}, err
	}
	return rows.Report(), d.flush(ctx)
}

// add adds a batch of the stream.
func (d *describing) add(ctx context.Context, b arrow.RecordBatch) error {
	numbers := make([]int64, b.NumRows())
	for i := range numbers {
		numbers[i], d.read = d.read, d.read+1
	}
	partitions := make([]int32, b.NumRows())
	if d.divider != nil {
		if err := d.divider.Assign(partitions, b.Columns()); err != nil {
			return err
		}
	}
	columns, err := d.described(ctx, b)
	if err != nil {
		return err
	}
	defer columns.Release()
	byPartition := map[int32][]int32{}
	var order []int32
	for i, p := range partitions {
		if byPartition[p] == nil {
			order = append(order, p)
		}
		byPartition[p] = append(byPartition[p], int32(i)) //nolint:gosec // rows of a batch
	}
	for _, p := range order {
		if err := d.addRows(ctx, p, columns, numbers, byPartition[p]); err != nil {
			return err
		}
		d.days[p].count(b, d.marks, byPartition[p])
		if err := d.cluster(p, b, byPartition[p]); err != nil {
			return err
		}
	}
	return nil
}

// count counts rows of a batch, given their positions.
func (d *day) count(b arrow.RecordBatch, marks []marked, rows []int32) {
	d.counted += int64(len(rows))
	for e, m := range marks {
		matched, ok := column[*array.Boolean](b, m.matched)
		if !ok {
			continue
		}
		for _, i := range rows {
			if matched.Value(int(i)) {
				d.matched[e]++
			}
		}
	}
}

// column returns a column of a batch; false if there is none of this type.
func column[T arrow.Array](b arrow.RecordBatch, at int) (out T, ok bool) {
	if at < 0 {
		return out, false
	}
	out, ok = b.Column(at).(T)
	return out, ok
}

// described returns the columns to describe of a batch, and the ages, which the caller releases.
func (d *describing) described(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, len(d.fields))
	for _, at := range d.columns {
		columns = append(columns, b.Column(at))
	}
	for _, entry := range d.ages {
		bytes := b.NumRows() * int64(arrow.Float64SizeBytes+1)
		if err := d.held.GrowWait(ctx, bytes); err != nil {
			return nil, err
		}
		defer d.held.Shrink(bytes)
		ages := d.agesOf(b, d.marks[entry])
		defer ages.Release()
		columns = append(columns, ages)
	}
	for _, entry := range d.times {
		columns = append(columns, b.Column(d.marks[entry].staging))
	}
	return array.NewRecordBatch(arrow.NewSchema(d.fields, nil), columns, b.NumRows()), nil
}

// addRows adds rows of a batch, all of one partition, given their positions.
func (d *describing) addRows(ctx context.Context, of int32, b arrow.RecordBatch, numbers []int64, rows []int32) error {
	if d.part != nil && d.at != of {
		if err := d.flush(ctx); err != nil {
			return err
		}
	}
	if d.part == nil {
		d.part, d.at = stats.NewPart(d.fields, d.sampling()), of
	}
	if d.days[of] == nil {
		if err := d.held.GrowWait(ctx, int64(len(d.marks))*stats.ClustersBytes); err != nil {
			return err
		}
		d.days[of] = &day{matched: make([]int64, len(d.marks)), clusters: make([]stats.Clusters, len(d.marks))}
	}
	b.Retain()
	if int64(len(rows)) < b.NumRows() {
		bytes, err := sizeOf(b, rows)
		if err != nil {
			return err
		}
		if err := d.held.GrowWait(ctx, bytes); err != nil {
			return err
		}
		defer d.held.Shrink(bytes)
		chosen, err := batch.Filter(b, rows, memory.DefaultAllocator)
		b.Release()
		if err != nil {
			return err
		}
		b = chosen
		own := make([]int64, len(rows))
		for i, row := range rows {
			own[i] = numbers[row]
		}
		numbers = own
	}
	defer b.Release()
	bytes, err := d.part.Select(b, numbers)
	if err != nil {
		return err
	}
	if err := d.held.GrowWait(ctx, bytes); err != nil {
		return err
	}
	return d.part.Add(b, memory.DefaultAllocator)
}

// sizeOf returns the memory of a copy of some rows of a batch.
func sizeOf(b arrow.RecordBatch, rows []int32) (bytes int64, err error) {
	for _, c := range b.Columns() {
		size, err := new(batch.Gatherer).Size(c.DataType(), []batch.Segment{{Values: c, Indices: rows}})
		if err != nil {
			return 0, err
		}
		bytes += size
	}
	return bytes, nil
}

// flush adds the latest rows to those of their partition, and to all rows.
func (d *describing) flush(ctx context.Context) error {
	if d.part == nil {
		return nil
	}
	rows, day := d.part.Outline(), d.days[d.at]
	d.whole.Merge(d.part)
	d.part = nil
	if day.rows != nil {
		day.rows.Merge(rows)
		return nil
	}
	day.rows = rows
	return d.held.GrowWait(ctx, rows.Memory())
}
