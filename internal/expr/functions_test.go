package expr

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCallsOfFunctions evaluates calls with literals, lists and NULL, and calls in calls.
func TestCallsOfFunctions(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ text, rows, want string }{
		{"coalesce(i, NULL, 7)", `[{"i":1},{}]`, "1 7"},
		{"nullif(i, NULL)", `[{"i":1},{}]`, "1 null"},
		{"lookup(s, ['de', 'fr'], NULL)", `[{"s":"fr"},{"s":"x"},{}]`, "1 null null"},
		{"lookup(lower(s), ['de', 'fr'], 9)", `[{"s":"FR"},{"s":"x"},{}]`, "1 9 null"},
		{"bucketize(i, [18, 25, 35])", `[{"i":18},{"i":19},{"i":99},{}]`, "0 1 3 null"},
		{"bucketize(g, [0.5, 2])", `[{"g":0.5},{"g":1},{"g":3},{}]`, "0 1 2 null"},
		{"hash(s, 100)", `[{"s":"iceberg"},{}]`, "89 null"},
		{"hash(concat_ws('_', s, CAST(i AS string)), 1000) + 1", `[{"s":"a","i":1},{"s":"a"}]`, ""},
		{"date_trunc('day', p)", `[{"p":"2026-10-01 12:00:00"},{}]`, ""},
		{"year(d) * 100 + month(d)", `[{"d":"2026-10-01"},{}]`, "202610 null"},
		{"ln(greatest(g, 1))", `[{"g":1},{"g":-5},{}]`, "0 0 0"},
	} {
		got, err := evaluateOne(t, one.text, one.rows)
		require.NoError(t, err, one.text)
		if one.want != "" {
			require.Equal(t, one.want, strings.Join(got, " "), one.text)
		}
	}
	_, err := evaluateOne(t, "abs(NULL) + i", `[{"i":1}]`)
	require.ErrorContains(t, err, "abs(x) takes a number")
	_, err = evaluateOne(t, "if(b, i, 0)", `[{"i":1}]`)
	require.ErrorContains(t, err, "CASE WHEN")
}
