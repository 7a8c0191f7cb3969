package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// integerLiteral returns the value of a literal that is an integer.
func integerLiteral(a Argument) (int64, bool) {
	if a.Literal == nil || a.Literal.Len() != 1 || a.Literal.IsNull(0) {
		return 0, false
	}
	switch l := a.Literal.(type) {
	case *array.Int32:
		return int64(l.Value(0)), true
	case *array.Int64:
		return l.Value(0), true
	default:
		return 0, false
	}
}

// textLiteralOf returns the text of an argument that is a literal.
func textLiteralOf(a Argument) (string, bool) {
	if a.Literal == nil || a.Literal.Len() != 1 || a.Literal.IsNull(0) {
		return "", false
	}
	s, ok := a.Literal.(*array.String)
	if !ok {
		return "", false
	}
	return s.Value(0), true
}

// listLiteral returns the items of a literal that is a list without nulls; false for other arguments. The caller
// releases the items.
func listLiteral(a Argument) (arrow.Array, bool) {
	if a.Literal == nil || a.Literal.Len() != 1 || a.Literal.IsNull(0) {
		return nil, false
	}
	l, ok := a.Literal.(*array.List)
	if !ok {
		return nil, false
	}
	from, to := l.ValueOffsets(0)
	items := array.NewSlice(l.ListValues(), from, to)
	if items.NullN() > 0 {
		items.Release()
		return nil, false
	}
	return items, true
}

// isNullLiteral reports whether an argument is NULL.
func isNullLiteral(a Argument) bool {
	return a.Type.ID() == arrow.NULL || a.Literal != nil && a.Literal.Len() == 1 && a.Literal.IsNull(0)
}
