package joined

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// column is a column of a table, with the shapes that a stream applies to it.
type column struct {
	field  catalog.Field
	shapes []resolve.Shape
}

func (c column) same(o column) bool {
	return c.field.ID == o.field.ID && slices.EqualFunc(c.shapes, o.shapes, func(a, b resolve.Shape) bool {
		return a.First == b.First && a.Last == b.Last && (a.As == nil) == (b.As == nil) && (a.As == nil || arrow.TypeEqual(a.As, b.As))
	})
}

// arrow returns the column's Arrow field after its shapes were applied.
func (c column) arrow() arrow.Field {
	f := c.field.Arrow()
	f.Type = resolve.Output{Field: c.field, Shapes: c.shapes}.Type()
	return f
}

// shaped applies the column's shapes to an array. The caller releases the result.
func (c column) shaped(a arrow.Array, mem memory.Allocator) (arrow.Array, error) {
	a.Retain()
	for _, s := range c.shapes {
		next, err := shape(a, s, mem)
		a.Release()
		if err != nil {
			return nil, fault.Op(err, "shape column %s", c.field.Name)
		}
		a = next
	}
	return a, nil
}

// shape truncates lists, then casts.
func shape(a arrow.Array, s resolve.Shape, mem memory.Allocator) (arrow.Array, error) {
	a.Retain()
	cut := a
	var err error
	switch {
	case s.First > 0:
		cut, err = batch.First(a, s.First, mem)
	case s.Last > 0:
		cut, err = batch.Last(a, s.Last, mem)
	default:
		cut.Retain()
	}
	a.Release()
	if err != nil || s.As == nil {
		return cut, err
	}
	defer cut.Release()
	return batch.Cast(cut, s.As, mem)
}

// columns lists the columns read from a table, without duplicates.
type columns []column

// add returns the index of a column, appending it if it is new.
func (c *columns) add(one column) int {
	i := slices.IndexFunc(*c, one.same)
	if i < 0 {
		*c = append(*c, one)
		i = len(*c) - 1
	}
	return i
}

// coded returns the field ids of those of the columns at some positions that may be read as codes.
// A column may be coded only if it is listed once and has no shapes.
func (c columns) coded(positions []int) (ids []int) {
	for i, one := range c {
		others := slices.ContainsFunc(slices.Concat(c[:i], c[i+1:]), func(o column) bool { return o.field.ID == one.field.ID })
		if slices.Contains(positions, i) && !others && len(one.shapes) == 0 && one.field.Type != nil && batch.MayBeCoded(one.field.Type) {
			ids = append(ids, one.field.ID)
		}
	}
	return ids
}

// scan opens a source and returns its columns with their shapes applied.
func (o Options) scan(ctx context.Context, source plan.Source, wanted columns) (SourceRows, error) {
	var fields []catalog.Field
	at := make([]int, len(wanted))
	plain := true
	for i, c := range wanted {
		at[i] = slices.IndexFunc(fields, func(f catalog.Field) bool { return f.ID == c.field.ID })
		if at[i] < 0 {
			at[i] = len(fields)
			fields = append(fields, c.field)
		}
		plain = plain && at[i] == i && len(c.shapes) == 0
	}
	source.Cache, source.CacheReads = o.cache, o.cacheReads
	source.Checked = checkedOf(source, fields)
	rows, err := o.Scan(ctx, source, fields)
	if err != nil || plain {
		return rows, err
	}
	schema := make([]arrow.Field, len(wanted))
	for i, c := range wanted {
		schema[i] = c.arrow()
	}
	if source.Ordinals { // the column of ordinals follows the requested columns
		schema, at = append(schema, rows.Schema().Field(len(fields))), append(at, len(fields))
	}
	s := &shaping{rows: rows, wanted: wanted, at: at, schema: arrow.NewSchema(schema, nil), memory: o.Memory}
	return derivedRows{RecordReader: batch.FromFunc(s.schema, s.next, rows.Release), of: rows}, nil
}

// checkedOf returns those of a source's checked columns that the scan decodes in any case: because
// the columns are requested, or because the source's filter, sample or deletes need them.
func checkedOf(source plan.Source, requested []catalog.Field) []catalog.Field {
	looked := slices.Concat(source.Filter.Columns(), source.Sample.Reads())
	return slices.DeleteFunc(slices.Clone(source.Checked), func(key catalog.Field) bool {
		same := func(f catalog.Field) bool { return f.ID == key.ID }
		deletes := func(f plan.FileRange) bool {
			return slices.ContainsFunc(f.File.Deletes.Equality, func(g *catalog.EqualityGroup) bool { return slices.ContainsFunc(g.Columns, same) })
		}
		return !slices.ContainsFunc(requested, same) && !slices.Contains(looked, key.Name) && !slices.ContainsFunc(source.Files, deletes)
	})
}

type shaping struct {
	rows   SourceRows
	wanted columns
	at     []int
	schema *arrow.Schema
	memory memory.Allocator
}

func (s *shaping) next() (arrow.RecordBatch, error) {
	if !s.rows.Next() {
		return nil, s.rows.Err()
	}
	b := s.rows.RecordBatch()
	made := make([]arrow.Array, 0, len(s.at))
	defer func() {
		for _, a := range made {
			a.Release()
		}
	}()
	for i, at := range s.at {
		var c column
		if i < len(s.wanted) {
			c = s.wanted[i]
		}
		a, err := c.shaped(b.Column(at), s.memory)
		if err != nil {
			return nil, err
		}
		made = append(made, a)
	}
	return array.NewRecordBatch(batch.FormOf(s.schema, made), made, b.NumRows()), nil
}
