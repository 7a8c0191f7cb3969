package function

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// TestChosenNumbers chooses among numbers, of which many are null, equal, NaN or zeros with a sign, in every number
// of rows up to three words. The values are equal bit by bit, and zero under nulls.
//
// spec: function-6
func TestChosenNumbers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	some := []any{nil, 0.0, math.Copysign(0, -1), math.NaN(), 1.0, -1.0, math.Inf(1), math.Inf(-1)}
	choices := map[string]func(x, y float64) bool{ // whether y is chosen
		"coalesce": func(float64, float64) bool { return false },
		"greatest": func(x, y float64) bool { return y > x || y != y && x == x },
		"least":    func(x, y float64) bool { return y < x || x != x && y == y },
	}
	dt := arrow.PrimitiveTypes.Float64
	for name, better := range choices {
		b, err := Bind(name, []Argument{{Type: dt}, {Type: dt}, {Type: dt}})
		require.NoError(t, err)
		for rows := range 3 * wordRows {
			args, want, valid := make([]arrow.Array, 3), make([]float64, rows), make([]bool, rows)
			for k := range args {
				of := make([]any, rows)
				for i := range of {
					of[i] = some[r.IntN(cmp.Or(rows%len(some), 1))]
					if v, ok := of[i].(float64); ok && (!valid[i] || better(want[i], v)) {
						want[i], valid[i] = v, true
					}
				}
				args[k] = column(t, dt, of)
			}
			out, err := b.Run(args, rows, checked(t))
			require.NoError(t, err)
			got := arrow.GetValues[float64](out.Data(), 1)
			for i := range want {
				require.Equal(t, valid[i], out.IsValid(i), "%s of row %d of %d", name, i, rows)
				require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got[i]), "%s of row %d of %d", name, i, rows)
			}
			out.Release()
			releaseAll(args)
		}
	}
}
