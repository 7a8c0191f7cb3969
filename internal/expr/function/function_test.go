package function

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestBindRefusesUnknownNames(t *testing.T) {
	_, err := Bind("no_such_function", nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Len(t, fault.As(err).Faults, 1)
	require.Contains(t, err.Error(), "no_such_function")

	_, err = Bind("greatst", nil)
	require.Equal(t, "greatest", fault.As(err).Faults[0].Nearest)

	_, err = Bind("concat", nil)
	require.ErrorContains(t, err, "a || b")
}

func TestBindNamesAcceptedTypes(t *testing.T) {
	_, err := Bind("ABS", []Argument{{Type: arrow.BinaryTypes.String}})
	require.EqualError(t, err, "abs(x) takes a number, not (utf8)")
	_, err = Bind("abs", []Argument{{Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}}})
	require.EqualError(t, err, "abs(x) takes a number, not (decimal(10, 2)): cast decimals to double first")
	_, err = Bind("abs", nil)
	require.EqualError(t, err, "abs(x) takes a number, not ()")
}

// TestFailuresShowTheRow checks the kind, the values and the remedy of an error.
func TestFailuresShowTheRow(t *testing.T) {
	in := column(t, arrow.PrimitiveTypes.Int32, []any{int32(1), nil, int32(-1 << 31)})
	defer in.Release()
	b, err := Bind("abs", []Argument{{Type: in.DataType()}})
	require.NoError(t, err)
	_, err = b.Run([]arrow.Array{in}, 3, checked(t))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "abs(-2147483648) is out of the range of its type")
	require.NotEmpty(t, fault.As(err).Remedy)
}

// TestEveryFunctionHasACase checks that the functions of each case exist, and that each function has a case.
func TestEveryFunctionHasACase(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range cases() {
		tested[c.name] = true
	}
	for _, s := range Names() {
		require.True(t, tested[s.Name], s.Name)
		require.NotEmpty(t, s.Accepts, s.Name)
		require.NotEmpty(t, s.Result, s.Name)
		require.NotEmpty(t, s.Meaning, s.Name)
		delete(tested, s.Name)
	}
	require.Empty(t, tested)
}
