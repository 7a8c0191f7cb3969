// Package compute adds columns to the rows of penstock stage. The values of a column are an
// expression over the other columns.
package compute

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
)

// Column is a computed column.
type Column struct {
	Name string
	expr *expr.ValueExpr
}

// Parse parses columns such as "ctr = clicks / nullif(views, 0)".
func Parse(texts []string) ([]Column, error) {
	var out []Column
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fault.InvalidField("compute", "%q does not begin with the name of a column", text).
				WithRemedy("write NAME = EXPRESSION, as in 'ctr = clicks / nullif(views, 0)'")
		}
		if slices.ContainsFunc(out, func(c Column) bool { return c.Name == name }) {
			return nil, fault.InvalidField("compute", "column %s is computed twice", name)
		}
		parsed, err := expr.ParseValue(strings.TrimSpace(value))
		if err != nil {
			return nil, fault.Op(err, "compute column %s", name)
		}
		out = append(out, Column{name, parsed})
	}
	return out, nil
}

// Reads returns the columns to read if the result has only the given columns, some of which are
// computed.
func Reads(computed []Column, result []string) []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	isComputed := func(name string) bool {
		return slices.ContainsFunc(computed, func(c Column) bool { return c.Name == name })
	}
	for _, name := range result {
		if !isComputed(name) {
			add(name)
		}
	}
	for _, c := range computed {
		for _, name := range c.expr.Columns() {
			if !isComputed(name) {
				add(name)
			}
		}
	}
	return out
}

// Rows returns rows with the computed columns after the others, or only the columns of result if it
// is not nil. A column may use those before it. The memory of values is charged to b, which may be
// nil. Rows takes over the reader, also if it fails.
func Rows(rows array.RecordReader, computed []Column, result []string, b *budget.Budget) (_ array.RecordReader, err error) {
	defer func() {
		if err != nil {
			rows.Release()
		}
	}()
	types, err := conform.New(rows.Schema()) // expressions have the types that tables have
	if err != nil {
		return nil, err
	}
	c := &computation{rows: rows, types: types}
	fields := types.Schema().Fields()
	for _, one := range computed {
		schema := arrow.NewSchema(fields, nil)
		if schema.HasField(one.Name) {
			return nil, fault.InvalidField("compute", "the rows have a column %s already", one.Name).WithRemedy("give the computed column another name")
		}
		bound, err := one.expr.Bind(schema)
		if err != nil {
			return nil, fault.Op(err, "compute column %s", one.Name)
		}
		c.computed = append(c.computed, bound)
		fields = append(fields, arrow.Field{Name: one.Name, Type: bound.Type(), Nullable: true})
	}
	c.all = arrow.NewSchema(fields, nil)
	c.result = c.all
	if result != nil {
		var kept []arrow.Field
		for _, name := range result {
			at := c.all.FieldIndices(name)
			if len(at) != 1 {
				return nil, fault.InvalidField("columns", "the rows have no column %s, and none is computed", name)
			}
			c.kept, kept = append(c.kept, at[0]), append(kept, fields[at[0]])
		}
		c.result = arrow.NewSchema(kept, nil)
	}
	if c.held, err = b.Reserve("computed columns", 0); err != nil {
		return nil, err
	}
	return batch.FromFunc(c.result, c.next, func() {
		c.held.Release()
		rows.Release()
	}), nil
}

// computation computes columns, batch by batch.
type computation struct {
	rows        array.RecordReader
	types       *conform.Conformer
	computed    []*expr.Computed
	all, result *arrow.Schema
	kept        []int // the columns of the result; nil: all
	held        *budget.Reservation
}

// conformed returns a batch with the types that tables have. The caller releases it.
func (c *computation) conformed(read arrow.RecordBatch) (arrow.RecordBatch, error) {
	bytes, err := c.types.Bytes(read)
	if err == nil {
		err = c.held.Grow(bytes)
	}
	if err != nil {
		return nil, err
	}
	return c.types.Batch(read, batch.Default())
}

// next returns the next batch, or nil at the end. The values of the batch before are not used any
// more, since its reader has released it.
func (c *computation) next() (arrow.RecordBatch, error) {
	if !c.rows.Next() {
		return nil, c.rows.Err()
	}
	c.held.Shrink(c.held.Held())
	read, err := c.conformed(c.rows.RecordBatch())
	if err != nil {
		return nil, err
	}
	defer read.Release()
	columns := slices.Clone(read.Columns())
	defer func() {
		for _, made := range columns[read.NumCols():] {
			made.Release()
		}
	}()
	for _, one := range c.computed {
		fields := c.all.Fields()[:len(columns)]
		before := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, read.NumRows())
		err := c.held.Grow(one.Size(before))
		if err == nil {
			var made arrow.Array
			if made, err = one.Evaluate(before, batch.Default()); err == nil {
				columns = append(columns, made)
			}
		}
		before.Release()
		if err != nil {
			return nil, fault.Op(err, "compute column %s", c.all.Field(len(columns)).Name)
		}
	}
	out := columns
	if c.kept != nil {
		out = make([]arrow.Array, len(c.kept))
		for i, at := range c.kept {
			out[i] = columns[at]
		}
	}
	return array.NewRecordBatch(c.result, out, read.NumRows()), nil
}
