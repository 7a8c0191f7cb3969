package expr

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/expr/operator"
)

// conditionValue is a condition as a value: TRUE, FALSE or null.
type conditionValue struct {
	whenTrue, whenFalse rule // the rows in which the value is TRUE, and those in which it is FALSE
	columns             []column
	isNullable          bool
}

// maxNested is the maximum number of conditions that are nested as values, as in (a = 1) = b. Each of
// them may evaluate the next one twice.
const maxNested = 8

// condition binds a condition as a value.
func (b *binder) condition(n node, position int) bound {
	b.nested++
	defer func() { b.nested-- }()
	if b.nested > maxNested {
		b.fail(position, "conditions are nested as values more than %d deep: join them with AND and OR", maxNested)
		return nil
	}
	before := b.faults.found
	c := &conditionValue{whenTrue: b.bind(n, false), isNullable: b.mayBeNull(n)}
	if b.faults.found > before {
		return nil
	}
	c.whenFalse = b.bind(n, true)
	c.columns = distinctColumns(func(callback func(column)) {
		c.whenTrue.visit(callback)
		c.whenFalse.visit(callback)
	})
	return c
}

// mayBeNull reports whether a condition may be null.
func (b *binder) mayBeNull(n node) bool {
	if _, ok := n.(*isNull); ok {
		return false
	}
	null := false
	children(n, func(node) { null = true })
	n.operands(func(o operand) {
		if o.isColumn() {
			fields, _ := b.schema.FieldsByName(o.column[0])
			null = null || len(fields) == 0 || fields[0].Nullable
		}
	})
	return null
}

func (c *conditionValue) typ() arrow.DataType { return arrow.FixedWidthTypes.Boolean }
func (c *conditionValue) nullable() bool      { return c.isNullable }

func (c *conditionValue) visit(callback func(column)) {
	for _, one := range c.columns {
		callback(one)
	}
}

func (c *conditionValue) evaluate(e *evaluation, rows []uint64) (arrow.Array, error) {
	yes, rest := e.copyOf(rows), e.copyOf(rows)
	defer e.recycle(yes)
	defer e.recycle(rest)
	c.whenTrue.keep(e, yes)
	subtract(rest, yes)
	no := e.copyOf(rest)
	defer e.recycle(no)
	c.whenFalse.keep(e, no)
	if e.err != nil {
		return nil, e.err
	}
	subtract(rest, no) // the rows in which the condition is null
	var validity *memory.Buffer
	within := operator.Rows{Count: e.rows, Memory: e.mem}
	if countRows(rest) > 0 {
		validity = within.Bitmap(func(begin, _ int) uint64 { return ^rest[begin/64] })
	}
	return within.Make(c.typ(), validity, within.Bitmap(func(begin, _ int) uint64 { return yes[begin/64] })), nil
}

func (c *conditionValue) measure(m *measure) int64 {
	m.rule(c.whenTrue)
	m.rule(c.whenFalse)
	bytes := operator.ChooseSize(c.typ(), m.rows)
	m.total += bytes
	return bytes
}

// rule adds the bytes of the values in a rule that are not columns.
func (m *measure) rule(r rule) {
	one := func(c column) {
		if c.value != nil && !m.known[c.name] {
			m.known[c.name] = true
			c.value.measure(m)
		}
	}
	switch r := r.(type) {
	case *junction:
		for _, t := range r.terms {
			m.rule(t)
		}
	case *null:
		one(r.column)
	case *leaf:
		one(r.column)
	case *pair:
		one(r.left)
		one(r.right)
	case *prefixMatch:
		one(r.column)
	case *patternMatch:
		one(r.column)
	}
}

// choiceValue is CASE.
type choiceValue struct {
	dt         arrow.DataType
	conditions []rule
	values     []bound // of the conditions, and of ELSE
	isDecimal  bool
}

// choice binds CASE.
func (b *binder) choice(n *choice, o operand) bound {
	before := b.faults.found
	c := &choiceValue{dt: arrow.Null}
	for _, condition := range n.conditions {
		c.conditions = append(c.conditions, b.bind(condition, false))
	}
	for _, value := range n.values {
		c.values = append(c.values, b.value(value))
	}
	if b.faults.found > before {
		return nil
	}
	for _, v := range c.values {
		common := operator.Common(c.dt, v.typ())
		if common == nil {
			b.fail(o.position, "the values of CASE have types %s and %s: cast them to one type", operator.Name(c.dt), operator.Name(v.typ()))
			return nil
		}
		c.dt = common
	}
	if c.dt.ID() == arrow.NULL {
		b.fail(o.position, "all values of CASE are NULL: write CAST(NULL AS type)")
		return nil
	}
	c.isDecimal = isDecimal(c.values)
	for i, v := range c.values {
		c.values[i] = b.widened(v, c.dt, operand{position: o.position, inner: n})
	}
	return c
}

// widened returns a value as a type that holds all of its values.
func (b *binder) widened(v bound, to arrow.DataType, whole operand) bound {
	switch {
	case v.typ().ID() == arrow.NULL:
		return &literalValue{value: nulls(to)}
	case arrow.TypeEqual(v.typ(), to):
		return v
	}
	with, err := operator.Cast(v.typ(), to, false)
	return b.operation(whole, with, err, v)
}

func (c *choiceValue) typ() arrow.DataType { return c.dt }

func (c *choiceValue) nullable() bool { return slices.ContainsFunc(c.values, bound.nullable) }

func (c *choiceValue) visit(callback func(column)) {
	for _, r := range c.conditions {
		r.visit(callback)
	}
	for _, v := range c.values {
		v.visit(callback)
	}
}

// evaluate computes each value for the rows that take it only, so that other rows cause no errors.
func (c *choiceValue) evaluate(e *evaluation, rows []uint64) (arrow.Array, error) {
	rest := e.copyOf(rows)
	sets := make([][]uint64, 0, len(c.values))
	sources := make([]arrow.Array, 0, len(c.values))
	defer func() {
		for i, a := range sources {
			a.Release()
			e.recycle(sets[i])
		}
	}()
	for i, v := range c.values {
		taken := e.copyOf(rest)
		if i < len(c.conditions) {
			c.conditions[i].keep(e, taken)
		}
		if e.err != nil {
			return nil, e.err
		}
		subtract(rest, taken)
		if countRows(taken) == 0 {
			e.recycle(taken)
			continue
		}
		a, err := v.evaluate(e, taken)
		if err != nil {
			return nil, err
		}
		sets, sources = append(sets, taken), append(sources, a)
	}
	e.recycle(rest)
	if _, ok := c.dt.(arrow.FixedWidthDataType); ok && c.dt.ID() != arrow.FIXED_SIZE_BINARY && c.dt.ID() != arrow.FIXED_SIZE_LIST {
		return operator.Choose(c.dt, sources, sets, operator.Rows{Count: e.rows, Memory: e.mem}), nil
	}
	return e.choose(c.dt, sources, sets)
}

// choose is like operator.Choose, for all types.
func (e *evaluation) choose(dt arrow.DataType, sources []arrow.Array, sets [][]uint64) (arrow.Array, error) {
	which, at := make([]int32, e.rows), make([]int32, e.rows)
	for row := range which {
		which[row] = int32(len(sources)) // null
	}
	for i, set := range sets {
		for row := range eachRow(set) {
			which[row] = int32(i)
			if sources[i].Len() == e.rows {
				at[row] = int32(row)
			}
		}
	}
	none := nulls(dt)
	defer none.Release()
	return batch.Choose(dt, append(slices.Clone(sources), none), which, at, e.mem)
}

func (c *choiceValue) measure(m *measure) int64 {
	for _, r := range c.conditions {
		m.rule(r)
	}
	bytes := int64(0)
	for _, v := range c.values {
		own := v.measure(m)
		if _, ok := v.(*literalValue); ok {
			own *= int64(m.rows)
		}
		bytes += own
	}
	bytes += int64(m.rows+1) * choiceBytes
	if _, ok := c.dt.(arrow.FixedWidthDataType); ok {
		bytes = operator.ChooseSize(c.dt, m.rows)
	}
	bytes = min(bytes, unaffordable)
	m.total += bytes
	return bytes
}

// choiceBytes is the memory for each row in which a value of a type without a fixed width is chosen:
// four numbers, an offset and the rounding of buffers.
const choiceBytes = 64
