package expr_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
)

func TestValuesCompareWithinOneKind(t *testing.T) {
	t.Parallel()
	ascending := [][]expr.Value{
		{expr.Int(-5), expr.Int(0), expr.Int(7)},
		{expr.Float(-1.5), expr.Float(2)},
		{expr.Text("a"), expr.Text("ab"), expr.Bytes([]byte("b"))},
		{expr.Decimal(big.NewInt(-25), 1), expr.Decimal(big.NewInt(100), 2), expr.Decimal(big.NewInt(2), 0)},
	}
	for i, values := range ascending {
		for a, v := range values {
			for b, w := range values {
				order, ok := v.Compare(w)
				require.True(t, ok)
				require.Equal(t, min(1, max(-1, a-b)), order, "%s and %s", v, w)
				require.Equal(t, a == b, v.String() == w.String())
			}
			for k, others := range ascending {
				if _, ok := v.Compare(others[0]); k != i {
					require.False(t, ok)
				}
			}
		}
	}
	_, ok := expr.Value{}.Compare(expr.Value{})
	require.False(t, ok)
	require.Equal(t, expr.Decimal(big.NewInt(10), 1).String(), expr.Decimal(big.NewInt(1), 0).String())
	v, ok := expr.Int(3).Integer()
	require.True(t, ok)
	require.EqualValues(t, 3, v)
	_, ok = expr.Bool(true).Integer()
	require.False(t, ok)
}
