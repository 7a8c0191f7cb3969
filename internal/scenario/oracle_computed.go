package scenario

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/dataset"
)

// formula is a computed column of one of the few forms that the oracle can evaluate without package
// expr.
type formula struct {
	form string
	args []string // names of columns
}

// The forms of formulas. Each pattern matches the text of one.
const (
	formSum      = "a sum"          // of two columns of ints or of longs; fails if it overflows
	formQuotient = "a quotient"     // fails if the divisor is 0
	formRatio    = "a ratio"        // null if the divisor is 0
	formChoice   = "a choice"       // the first of two columns of one type, or the second if the first is null
	formUnequal  = "an unequal"     // the first of two columns of one type, or null if they are equal
	formOf       = "another column" // the column itself
)

//nolint:gochecknoglobals // a constant table
var formulaTexts = map[string]*regexp.Regexp{
	formSum:      regexp.MustCompile(`^(\w+) \+ (\w+)$`),
	formQuotient: regexp.MustCompile(`^(\w+) / (\w+)$`),
	formRatio:    regexp.MustCompile(`^(\w+) / nullif\((\w+), 0\)$`),
	formChoice:   regexp.MustCompile(`^coalesce\((\w+), (\w+)\)$`),
	formUnequal:  regexp.MustCompile(`^nullif\((\w+), (\w+)\)$`),
	formOf:       regexp.MustCompile(`^(\w+)$`),
}

// text returns the expression.
func (f formula) text() string {
	a, b := f.args[0], f.args[len(f.args)-1]
	switch f.form {
	case formSum:
		return a + " + " + b
	case formQuotient:
		return a + " / " + b
	case formRatio:
		return fmt.Sprintf("%s / nullif(%s, 0)", a, b)
	case formChoice:
		return fmt.Sprintf("coalesce(%s, %s)", a, b)
	case formUnequal:
		return fmt.Sprintf("nullif(%s, %s)", a, b)
	default:
		return a
	}
}

// formulaOf returns the formula of an expression.
func formulaOf(text string) (formula, error) {
	for form, pattern := range formulaTexts {
		if found := pattern.FindStringSubmatch(text); found != nil {
			return formula{form: form, args: found[1:]}, nil
		}
	}
	return formula{}, fmt.Errorf("the oracle cannot evaluate %q", text)
}

// typeOf returns the type of the formula's values, or nil if a column is missing.
func (f formula) typeOf(columns map[string]arrow.DataType) arrow.DataType {
	for _, name := range f.args {
		if columns[name] == nil {
			return nil
		}
	}
	if f.form == formQuotient || f.form == formRatio {
		return arrow.PrimitiveTypes.Float64
	}
	return columns[f.args[0]]
}

// value returns the formula's value for its arguments. It returns a reason if there is none.
func (f formula) value(args []any, dt arrow.DataType) (value any, fails string) {
	if f.form == formOf {
		return args[0], ""
	}
	a, b := args[0], args[1]
	switch {
	case f.form == formChoice && a == nil:
		return b, ""
	case f.form == formChoice:
		return a, ""
	case f.form == formUnequal && a != nil && a == b:
		return nil, ""
	case f.form == formUnequal:
		return a, ""
	case a == nil || b == nil:
		return nil, ""
	}
	x, y := a.(int64), b.(int64) //nolint:forcetypeassert // the generator chooses only integers
	switch {
	case f.form == formSum && (dt.ID() == arrow.INT32 && (x+y < math.MinInt32 || x+y > math.MaxInt32) || (x+y > x) != (y > 0)):
		return nil, "a sum overflows"
	case f.form == formSum:
		return x + y, ""
	case y == 0 && f.form == formRatio:
		return nil, ""
	case y == 0:
		return nil, "a division by zero"
	}
	return float64(x) / float64(y), ""
}

// formulas returns the computed columns of the dataset and of the query, in an order in which each
// names only columns before it.
func (c *Case) formulas() []dataset.Computed {
	all := slices.Clone(c.Dataset.Computed)
	for _, one := range slices.Concat(c.Query.Columns, packedBy(c.Query.Dense)) {
		if one.Expr != "" {
			all = append(all, dataset.Computed{Column: one.Column, Expr: one.Expr})
		}
	}
	return all
}

// offerComputed adds the types of the computed columns whose arguments exist.
func (o *oracle) offerComputed(types map[string]arrow.DataType) {
	o.computed = map[string]formula{}
	for _, c := range o.formulas() {
		f, err := formulaOf(c.Expr)
		if err != nil {
			panic(err) // a case of another form has no oracle
		}
		if dt := f.typeOf(types); dt != nil {
			types[c.Column], o.computed[c.Column] = dt, f
		}
	}
}

// leaves returns the columns of tables of which a column is made: the column itself unless it is
// computed.
func (o *oracle) leaves(name string) []string {
	f, ok := o.computed[name]
	if !ok {
		return []string{name}
	}
	var all []string
	for _, arg := range f.args {
		all = append(all, o.leaves(arg)...)
	}
	return all
}

// withComputed adds the computed columns to the names of each input. Each belongs to the input that
// has all of its columns, or else to the training table.
func (o *oracle) withComputed(inputs [][]string) [][]string {
	for _, c := range o.formulas() {
		if _, ok := o.computed[c.Column]; !ok {
			continue
		}
		in := max(0, slices.IndexFunc(inputs, func(names []string) bool {
			return !slices.ContainsFunc(o.leaves(c.Column), func(name string) bool { return !slices.Contains(names, name) })
		}))
		inputs[in] = append(slices.Clip(inputs[in]), c.Column)
	}
	return inputs
}

// cell returns the value of a column in a joined row.
func (o *oracle) cell(name string, joined cells) any {
	f, ok := o.computed[name]
	if !ok {
		return joined[name]
	}
	args := make([]any, len(f.args))
	for i, arg := range f.args {
		args[i] = o.cell(arg, joined)
	}
	value, fails := f.value(args, o.offered[name])
	o.Seen["computed "+f.form]++
	if fails != "" {
		o.Fails = fails
		o.Seen["a computed value that does not exist"]++
	}
	return value
}

// packedBy returns the columns that dense columns pack.
func packedBy(dense []dataset.Dense) []dataset.Column {
	var columns []dataset.Column
	for _, d := range dense {
		columns = append(columns, d.Columns...)
	}
	return columns
}
