package scan

import (
	"math/big"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/plan"
)

// mayMatch reports whether rows of a row group may pass the source's filter, according to
// the footer.
func mayMatch(source plan.Source, o *opened, group int) bool {
	return source.Filter.MayMatch(func(column string) (expr.Range, bool) { return known(source, o, group, column) })
}

// known returns the range of a column in a row group according to the footer.
func known(source plan.Source, o *opened, group int, column string) (expr.Range, bool) {
	field, ok := source.Table.Field(column)
	if !ok {
		return expr.Range{}, false
	}
	if _, constant := o.constants[field.ID]; constant {
		return expr.Range{}, false // the catalog has already pruned by this column
	}
	if _, present := o.Field(field.ID); !present {
		return expr.Constant(expr.Value{}, o.RowGroups()[group].Rows), true // the file lacks the column, so its values are null
	}
	s, ok := o.Statistics(group, field.ID, field.Type)
	if !ok {
		return expr.Range{}, false
	}
	return rangeOf(s), true
}

// rangeOf converts a file's statistics for the filter.
func rangeOf(s parquet.Statistics) expr.Range {
	r := expr.Unbounded(s.Rows)
	r.Nulls, r.NoNaN = expr.Unknown, !s.MayHaveNaN
	if s.Nulls >= 0 {
		r.Nulls = s.Nulls
	}
	r.Lower, r.HasLower = valueOf(s.Lower, s.Scale)
	r.Upper, r.HasUpper = valueOf(s.Upper, s.Scale)
	return r
}

// valueOf converts a bound for the filter; false: there is none.
func valueOf(bound any, scale int32) (expr.Value, bool) {
	switch v := bound.(type) {
	case bool:
		return expr.Bool(v), true
	case int64:
		return expr.Int(v), true
	case float64:
		return expr.Float(v), true
	case string:
		return expr.Text(v), true
	case []byte:
		return expr.Bytes(v), true
	case *big.Int:
		return expr.Decimal(v, int(scale)), true
	default:
		return expr.Value{}, false
	}
}
