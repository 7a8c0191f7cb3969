package deletes

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// positions has the deleted positions by the location of the data file.
type positions map[string]*bitmap

// positionColumns returns the columns that are read from files of position deletes. Such a file may
// also have columns with the content of the deleted rows, which are not read.
func positionColumns() []catalog.Field {
	return []catalog.Field{
		{ID: catalog.PathField, Name: "file_path", Type: arrow.BinaryTypes.String, Required: true},
		{ID: catalog.PositionField, Name: "pos", Type: arrow.PrimitiveTypes.Int64, Required: true},
	}
}

// loadPositions loads a file of position deletes, for all data files that it names.
func (p *Pool) loadPositions(ctx context.Context, t *catalog.Table, d *catalog.DeleteFile) (*loaded, error) {
	held, err := p.options.Budget.ReserveFor(ctx, "position deletes of table "+t.Name, 0)
	if err != nil {
		return nil, err
	}
	all := positions{}
	err = p.read(ctx, t, d, positionColumns(), func(b arrow.RecordBatch) error {
		paths, at := b.Column(0).(*array.String), b.Column(1).(*array.Int64)
		if err := held.GrowWait(ctx, all.growth(paths, at)); err != nil {
			return err
		}
		return all.add(paths, at)
	})
	if err != nil {
		held.Release()
		return nil, err
	}
	actual := int64(0)
	for path, set := range all {
		actual += set.bytes() + int64(len(path))
	}
	held.Shrink(max(0, held.Held()-actual))
	out := newLoaded(held)
	out.positions = all
	return out, nil
}

// runs calls f for each run of rows with the same path.
func runs(paths *array.String, f func(path string, from, to int) error) error {
	for from := 0; from < paths.Len(); {
		path, to := paths.Value(from), from+1
		for to < paths.Len() && paths.Value(to) == path {
			to++
		}
		if err := f(path, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// growth returns the maximum memory that adding the given rows takes.
func (p positions) growth(paths *array.String, at *array.Int64) int64 {
	n := bytesOfPosition * int64(at.Len())
	_ = runs(paths, func(path string, from, to int) error {
		if _, ok := p[path]; !ok {
			n += 2*bytesOfBitmap + int64(len(path))
		}
		open := int64(-1)
		for _, v := range at.Int64Values()[from:to] {
			if v>>containerShift != open {
				open = v >> containerShift
				n += bytesOfContainer
			}
		}
		return nil
	})
	return n
}

func (p positions) add(paths *array.String, at *array.Int64) error {
	return runs(paths, func(path string, from, to int) error {
		values := at.Int64Values()[from:to]
		for _, v := range values {
			if v < 0 {
				return fault.New(fault.Corrupt, "it deletes row %d of %s", v, path)
			}
		}
		set := p[path]
		if set == nil {
			set = &bitmap{}
			p[string([]byte(path))] = set // a copy: the batch's memory is reused
		}
		set.add(values)
		return nil
	})
}
