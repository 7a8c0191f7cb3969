package function

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// spec: function-7
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

// spec: function-8
func TestBindNamesAcceptedTypes(t *testing.T) {
	_, err := Bind("ABS", []Argument{{Type: arrow.BinaryTypes.String}})
	require.EqualError(t, err, "abs(x) takes a number, not (string)")
	_, err = Bind("abs", []Argument{{Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}}})
	require.EqualError(t, err, "abs(x) takes a number, not (decimal(10, 2)): cast decimals to double first")
	_, err = Bind("abs", nil)
	require.EqualError(t, err, "abs(x) takes a number, not ()")
}

// TestFailuresShowTheRow checks the kind, the values and the remedy of an error.
//
// spec: function-4
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

// TestNullsMakeNulls runs all functions on random nulls.
//
// spec: function-5
func TestNullsMakeNulls(t *testing.T) {
	t.Parallel()
	others := map[string]bool{"coalesce": true, "nullif": true, "greatest": true, "least": true, "concat_ws": true}
	for _, c := range cases() {
		if others[c.name] {
			continue
		}
		in := c.random(t, 300)
		in, out := in.successful(t, c.bind(t, in))
		for i := range in.n {
			for _, a := range in.args {
				if nullsOf(a, in.n).at(i) && !(c.name == "lookup" && a.Len() == 1) {
					require.True(t, out.IsNull(i), c)
				}
			}
		}
		out.Release()
	}
}

// TestValuesUnderNullsHaveNoEffect puts values that fail under nulls.
//
// spec: function-6
func TestValuesUnderNullsHaveNoEffect(t *testing.T) {
	t.Parallel()
	all := column(t, arrow.PrimitiveTypes.Int32, []any{int32(-1 << 31), int32(-2), int32(0)})
	defer all.Release()
	valid := memory.NewBufferBytes([]byte{0b010})
	data := array.NewData(all.DataType(), 3, []*memory.Buffer{valid, all.Data().Buffers()[1]}, nil, 2, 0)
	defer data.Release()
	in := array.MakeFromData(data)
	defer in.Release()
	for _, name := range []string{"abs", "timestamp_seconds"} {
		b, err := Bind(name, []Argument{{Type: in.DataType()}})
		require.NoError(t, err)
		out, err := b.Run([]arrow.Array{in}, 3, checked(t))
		require.NoError(t, err)
		require.Equal(t, 2, out.NullN())
		require.True(t, out.IsValid(1))
		out.Release()
	}
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

// spec: function-7, function-8
func TestErrorsSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"log1p": "use ln(1 + x)", "LIST_SUM": "use array_sum", "list_avg": "use array_avg", "nvl": "use coalesce", "mod": "use x % y", "max": "use least or greatest", "array_dot": "penstock stage --sql",
		"md5": "use hash(x, n)", "list_sort": "penstock stage --sql",
	} {
		_, err := Bind(name, nil)
		require.ErrorContains(t, err, "there is no function "+name+": ")
		require.ErrorContains(t, err, want, name)
		require.NotContains(t, err.Error(), "did you mean")
	}
	for _, o := range omissions() {
		for name := range strings.FieldsSeq(o.names) {
			require.False(t, slices.ContainsFunc(definitions(), func(d definition) bool { return d.Name == name }), name)
		}
	}
	_, err := Bind("round", []Argument{{Type: float64Type()}, {Type: int64Type()}})
	require.EqualError(t, err, "round(x) takes a number, not (double, long): write round(x * 100) / 100 for two digits")
	_, err = Bind("hour", []Argument{{Type: arrow.FixedWidthTypes.Date32}})
	require.EqualError(t, err, "hour(x) takes a timestamp, not (date): cast dates to timestamp first")
}
