package expr

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/expr/function"
	"github.com/penstock/penstock/internal/expr/operator"
	"github.com/penstock/penstock/internal/fault"
)

// bound is a value expression bound to types: a column, a literal, an operation, a
// condition or a choice. It is immutable.
type bound interface {
	typ() arrow.DataType
	// nullable reports whether a value may be null.
	nullable() bool
	// visit calls the function for each column.
	visit(func(column))
	// evaluate returns the values of all rows, or the single value of a literal. Values of rows that
	// are not in the set are arbitrary, and cause no errors. The caller releases the result.
	evaluate(e *evaluation, rows []uint64) (arrow.Array, error)
	// measure returns an upper bound of the bytes of the values, and adds the bytes that evaluate
	// requests.
	measure(m *measure) int64
}

// columnValue is the value of a column.
type columnValue struct {
	column
	isNullable bool
}

func (c *columnValue) typ() arrow.DataType         { return c.exact }
func (c *columnValue) nullable() bool              { return c.isNullable }
func (c *columnValue) visit(callback func(column)) { callback(c.column) }

func (c *columnValue) evaluate(e *evaluation, _ []uint64) (arrow.Array, error) {
	a := e.arrays[c.name]
	a.Retain()
	return a, nil
}

func (c *columnValue) measure(m *measure) int64 {
	a := m.arrays[c.name]
	if a == nil {
		return 0
	}
	g := batch.NewGatherer(nil)
	defer g.Release()
	bytes, err := g.Size(a.DataType(), []batch.Segment{{Values: a, Rows: a.Len()}})
	if err != nil {
		return 0 // evaluate fails, too
	}
	return bytes
}

// literalValue is a literal: an array of one value, in memory of the Go heap.
type literalValue struct {
	value     arrow.Array
	isDecimal bool
}

func (l *literalValue) typ() arrow.DataType { return l.value.DataType() }
func (l *literalValue) nullable() bool      { return l.value.IsNull(0) }
func (l *literalValue) visit(func(column))  {}

func (l *literalValue) evaluate(*evaluation, []uint64) (arrow.Array, error) {
	l.value.Retain()
	return l.value, nil
}

func (l *literalValue) measure(*measure) int64 { return batch.ArraySize(l.value) }

// operation is an operator, or a function, and its arguments.
type operation struct {
	operator.Bound
	args    []bound
	firstOf bool // whether the result is the first argument that is not null, so that later arguments are not needed
	of      node // of which it was bound, for messages

	isDecimal bool
}

func (o *operation) typ() arrow.DataType { return o.Type }

func (o *operation) nullable() bool {
	for _, a := range o.args {
		if a.nullable() {
			return true
		}
	}
	return o.Nullable
}

func (o *operation) visit(callback func(column)) {
	for _, a := range o.args {
		a.visit(callback)
	}
}

func (o *operation) evaluate(e *evaluation, rows []uint64) (arrow.Array, error) {
	args := make([]arrow.Array, 0, len(o.args))
	defer func() {
		for _, a := range args {
			a.Release()
		}
	}()
	needed := rows
	for _, one := range o.args {
		a, err := one.evaluate(e, needed)
		if err != nil {
			return nil, err
		}
		args = append(args, a)
		if o.firstOf && a.Len() == e.rows {
			needed = e.nulls(a, needed)
		}
	}
	out, err := o.Run(args, operator.Rows{Count: e.rows, Active: rows, Memory: e.mem})
	if err != nil {
		return nil, fault.Op(err, "evaluate %s", shorten(printed(o.of)))
	}
	return out, nil
}

// nulls returns the rows of a set in which an array is null.
func (e *evaluation) nulls(a arrow.Array, rows []uint64) []uint64 {
	out, valid := append([]uint64(nil), rows...), operator.Validity(a)
	e.each(out, func(begin, end int) uint64 { return ^valid(begin, end) })
	return out
}

// unaffordable is more bytes than any budget has. Sizes are at most this number, so that neither their
// sums nor the products that functions make of them exceed int64.
const unaffordable = 1 << 46

func (o *operation) measure(m *measure) int64 {
	sizes := make([]int64, len(o.args))
	for i, a := range o.args {
		sizes[i] = a.measure(m)
	}
	bytes := min(o.Size(sizes, m.rows), unaffordable)
	m.total += bytes
	return bytes
}

// functionOperator returns a function as an operator.
func functionOperator(f function.Bound) operator.Bound {
	return operator.Bound{
		Type: f.Type, Nullable: f.Nullable, Size: f.Size,
		Run: func(args []arrow.Array, rows operator.Rows) (arrow.Array, error) {
			return f.Run(args, rows.Count, rows.Memory)
		},
	}
}

// masked is an argument of a function: its values are null in rows that are not active, so that these
// rows cause no errors.
type masked struct {
	bound
}

func (v *masked) evaluate(e *evaluation, rows []uint64) (arrow.Array, error) {
	a, err := v.bound.evaluate(e, rows)
	if err != nil || a.Len() != e.rows || countRows(rows) == e.rows {
		return a, err
	}
	defer a.Release()
	offset := a.Data().Offset()
	validity := memory.NewResizableBuffer(e.mem)
	defer validity.Release()
	validity.Resize((offset + e.rows + 7) / 8)
	clear(validity.Bytes())
	word := operator.Validity(a)
	for w := range rows {
		begin := w * 64
		operator.OrBits(validity.Bytes(), offset+begin, rows[w]&word(begin, min(begin+64, e.rows)))
	}
	buffers := append([]*memory.Buffer{validity}, a.Data().Buffers()[1:]...)
	data := array.NewData(a.DataType(), a.Len(), buffers, a.Data().Children(), array.UnknownNullCount, offset)
	defer data.Release()
	return array.MakeFromData(data), nil
}

func (v *masked) measure(m *measure) int64 {
	m.total += int64(m.offset+m.rows)/8 + 64
	return v.bound.measure(m)
}

func countRows(set []uint64) (n int) {
	for _, word := range set {
		n += bits.OnesCount64(word)
	}
	return n
}

// knownValue is a value that was computed for a set of rows.
type knownValue struct {
	array arrow.Array
	rows  []uint64
}

// array returns the values of a column for a set of rows. The caller releases them. If a value
// cannot be computed, it stores the error and returns nil.
func (e *evaluation) array(c column, rows []uint64) arrow.Array {
	if c.value == nil {
		a := e.arrays[c.name]
		a.Retain()
		return a
	}
	if e.err != nil {
		return nil
	}
	known := e.values[c.name]
	if known == nil || !covers(known.rows, rows) {
		all := append([]uint64(nil), rows...)
		if known != nil {
			for w := range all {
				all[w] |= known.rows[w]
			}
			known.array.Release()
			delete(e.values, c.name)
		}
		a, err := c.value.evaluate(e, all)
		if err != nil {
			e.err = err
			return nil
		}
		if e.values == nil {
			e.values = map[string]*knownValue{}
		}
		known = &knownValue{array: a, rows: all}
		e.values[c.name] = known
	}
	known.array.Retain()
	return known.array
}

// covers reports whether a set has all rows of another one.
func covers(set, rows []uint64) bool {
	for w := range rows {
		if rows[w]&^set[w] != 0 {
			return false
		}
	}
	return true
}

// forget releases the values that were computed.
func (e *evaluation) forget() {
	for name, known := range e.values {
		known.array.Release()
		delete(e.values, name)
	}
}
