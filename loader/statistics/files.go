package statistics

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/zeebo/xxh3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// progress counts rows.
type progress struct {
	mu        sync.Mutex
	read, all int64
}

// window is the number of files that are described before their parts are merged.
const window = 8

// readAll describes the rows of all files.
func (d *describing) readAll(ctx context.Context) (*stats.Part, error) {
	fields, seeds := arrowFields(d.columns), d.seeds()
	whole := stats.NewPart(fields, stats.Sampling{Level: d.level})
	if err := d.held.GrowWait(ctx, whole.Memory()); err != nil {
		return nil, err
	}
	for from := 0; from < len(d.files); from += window {
		parts := make([]*stats.Part, min(window, len(d.files)-from))
		err := d.Cores.Each(len(parts), func(i int) error {
			part, err := d.describeFile(ctx, d.files[from+i], seeds[from+i], fields)
			parts[i] = part
			return err
		})
		if err != nil {
			for _, part := range append(parts, whole) {
				part.Release()
			}
			return nil, err
		}
		for i, part := range parts {
			if err == nil {
				err = d.collect(ctx, d.files[from+i], part)
			}
			whole.Merge(part)
			d.held.Shrink(part.Memory())
		}
		if err != nil {
			whole.Release()
			return nil, err
		}
	}
	return whole, nil
}

// seeds returns the seed of the sample of each file. Seeds depend on when files were written, on their partitions and on the
// numbers of their rows, but not on their names, which are random.
func (d *describing) seeds() []uint64 {
	out, same := make([]uint64, len(d.files)), map[string]int{}
	for i, f := range d.files {
		text := fmt.Sprint(f.Sequence, f.Rank, f.Partition, f.Rows)
		out[i] = xxh3.HashString(fmt.Sprint(same[text], text))
		same[text]++
	}
	return out
}

// describeFile returns the part of a file: a kept one, or else that of the rows that it reads. The caller releases it, even
// after an error. Its memory is charged.
func (d *describing) describeFile(ctx context.Context, f catalog.File, seed uint64, fields []arrow.Field) (*stats.Part, error) {
	part := stats.NewPart(fields, stats.Sampling{Seed: seed, Level: d.level})
	if err := d.held.GrowWait(ctx, part.Memory()); err != nil {
		return nil, err
	}
	kept := d.keptPart(f, seed)
	if known, ok := d.readKept(ctx, kept, fields); ok {
		d.advance(known.Rows())
		return known, nil
	}
	if err := d.readFile(ctx, f, part); err != nil {
		return part, err
	}
	return part, d.keep(kept, f, part, fields)
}

// readFile adds the rows of a file to its part.
func (d *describing) readFile(ctx context.Context, f catalog.File, part *stats.Part) error {
	source := plan.Source{
		Table: d.table, Planned: catalog.FieldIDs(d.columns), Files: []plan.FileRange{{File: f, To: f.Rows}}, Ordinals: true,
	}
	rows, err := d.Read(ctx, source, d.columns)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		if err := d.add(ctx, rows.RecordBatch(), part); err != nil {
			return fault.Op(err, "describe file %s", f.Location)
		}
	}
	return rows.Err()
}

// add adds a batch, whose last column has the numbers of its rows in the file.
func (d *describing) add(ctx context.Context, b arrow.RecordBatch, part *stats.Part) error {
	last := int(b.NumCols()) - 1
	numbers, ok := b.Column(last).(*array.Int64)
	if !ok {
		return fault.New(fault.Internal, "the numbers of rows are %s", b.Column(last).DataType())
	}
	columns := array.NewRecordBatch(arrow.NewSchema(b.Schema().Fields()[:last], nil), b.Columns()[:last], b.NumRows())
	defer columns.Release()
	bytes, err := part.Select(columns, numbers.Int64Values())
	if err != nil {
		return err
	}
	if err := d.held.GrowWait(ctx, bytes); err != nil {
		return err
	}
	if err := part.Add(columns, memory.DefaultAllocator); err != nil {
		return err
	}
	d.advance(b.NumRows())
	return nil
}

// advance reports progress by a number of rows.
func (d *describing) advance(rows int64) {
	d.read.mu.Lock()
	defer d.read.mu.Unlock()
	d.read.read += rows
	if d.request.Progress != nil {
		d.request.Progress(d.read.read, d.read.all)
	}
}
