package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// ValueExpr is an expression for the values of a column, as written: parsed, but not yet bound to
// columns. It is immutable.
type ValueExpr struct {
	root node
	text string // canonical
}

// ParseValue parses a value expression. An error is Invalid and lists the first syntax error, or all
// other errors, in Faults, with 1-based positions in characters.
func ParseValue(text string) (*ValueExpr, error) {
	root, err := parse(text, "expression")
	if err != nil {
		return nil, err
	}
	return newValue(root)
}

// newValue returns the expression of a syntax tree, which must name a column.
func newValue(root node) (*ValueExpr, error) {
	v := &ValueExpr{root: root, text: printed(root)}
	if len(v.Columns()) == 0 {
		return nil, invalid("the expression %s has the same value in every row: an expression needs a column", shorten(v.text))
	}
	return v, nil
}

// Columns returns the distinct names of the columns in the text, in the order of first use. For a
// path into a struct it has the first name.
func (v *ValueExpr) Columns() []string { return columnsOf(v.root) }

// String returns the canonical text: normal spacing, upper-case keywords, functions in lower case,
// normalized literals, no redundant parentheses. Parsing it yields an equal expression with the same
// text.
func (v *ValueExpr) String() string { return v.text }

// Substitute returns the expression in which another one takes the place of a column. It fails with
// Invalid if the result is longer or deeper than an expression may be.
func (v *ValueExpr) Substitute(name string, with *ValueExpr) (*ValueExpr, error) {
	root, err := substitute(v.root, name, with)
	if err != nil {
		return nil, err
	}
	return &ValueExpr{root: root, text: printed(root)}, nil
}

// Substitute returns the filter in which an expression takes the place of a column. It fails with
// Invalid if the result is longer or deeper than a filter may be.
func (e *Expr) Substitute(name string, with *ValueExpr) (*Expr, error) {
	if e == nil {
		return nil, nil
	}
	root, err := substitute(e.root, name, with)
	if err != nil {
		return nil, err
	}
	return &Expr{root: root}, nil
}

func substitute(root node, name string, with *ValueExpr) (node, error) {
	uses := 0
	root.operands(func(o operand) {
		if len(o.column) == 1 && o.column[0] == name {
			uses++
		}
	})
	if uses*len(with.text) > MaxText { // before the tree is made, whose size is the product, too
		return nil, tooLong("expression")
	}
	out := replaceColumn(root, name, with.root)
	return out, checkSize(out, "expression")
}

// Bind resolves the expression's columns in a schema and checks the types of its operators. An
// error is Invalid and lists every fault, with positions in the text.
func (v *ValueExpr) Bind(schema *arrow.Schema) (*Computed, error) {
	b := newBinder(schema)
	root := b.value(operandOf(v.root, 1))
	if root != nil && root.typ().ID() == arrow.NULL {
		b.fail(1, "the expression has no type: write CAST(NULL AS type)")
	}
	if err := b.faults.err(); err != nil {
		return nil, err
	}
	return &Computed{root: root, text: v.text, columns: distinctColumns(root.visit)}, nil
}

// Computed is a value expression bound to a schema. It is immutable and safe for concurrent use.
type Computed struct {
	root    bound
	text    string
	columns []column
}

// Type returns the type of the values.
func (c *Computed) Type() arrow.DataType { return c.root.typ() }

// Nullable reports whether a value may be null. It may return true although none is.
func (c *Computed) Nullable() bool { return c.root.nullable() }

// Columns returns the distinct names of the columns that Evaluate reads.
func (c *Computed) Columns() []string {
	names := make([]string, len(c.columns))
	for i, one := range c.columns {
		names[i] = one.name
	}
	return names
}

// String returns the canonical text of the expression.
func (c *Computed) String() string { return c.text }

// Evaluate returns the values for the rows of a batch. The caller releases the result, whose buffers
// may be those of a column. Columns are found by name; the batch may have more columns, and is not
// modified. All memory of the result, and of values on the way to it, is from mem. A column that is
// missing or has another type than it was bound with is Internal. A value for which the expression
// is not defined is Invalid: the error has the value and a remedy.
func (c *Computed) Evaluate(batch arrow.RecordBatch, mem memory.Allocator) (arrow.Array, error) {
	e := &evaluation{arrays: make(map[string]arrow.Array, len(c.columns)), rows: int(batch.NumRows()), mem: mem}
	defer e.end()
	if err := e.resolve(batch, c.columns); err != nil {
		return nil, fault.Op(err, "evaluate %s", shorten(c.text))
	}
	for name, a := range e.arrays {
		own := view(a, 0, a.Len())
		defer own.Release()
		e.arrays[name] = own
	}
	return c.root.evaluate(e, e.all())
}

// Size returns an upper bound, in bytes, of what Evaluate requests from its allocator for a batch.
// An allocator that rounds sizes up uses more. Bitmaps of rows, which take a bit for each row and
// condition, are not included.
func (c *Computed) Size(batch arrow.RecordBatch) int64 {
	arrays := make(map[string]arrow.Array, len(c.columns))
	for _, one := range c.columns {
		if at := batch.Schema().FieldIndices(one.name); len(at) == 1 {
			arrays[one.name] = batch.Column(at[0])
		}
	}
	m := newMeasure(arrays, int(batch.NumRows()))
	c.root.measure(m)
	return m.sum()
}

// measure adds up the bytes that an evaluation requests.
type measure struct {
	arrays map[string]arrow.Array // by the names of their columns
	rows   int
	offset int             // the largest offset of a column in its buffers
	known  map[string]bool // the values in rules, by name, which an evaluation keeps
	total  int64
}

func newMeasure(arrays map[string]arrow.Array, rows int) *measure {
	m := &measure{arrays: arrays, rows: rows, known: map[string]bool{}}
	for _, a := range arrays {
		m.offset = max(m.offset, a.Data().Offset())
	}
	return m
}

// sum returns the bytes of the whole evaluation.
func (m *measure) sum() int64 {
	if len(m.known) > 0 {
		return 2 * m.total // a value that is kept for other conditions is computed again, for more rows
	}
	return m.total
}
