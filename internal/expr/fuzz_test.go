package expr

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// FuzzParse: no text makes the parser or the binder panic, every error is Invalid with
// positions within the text, and canonical texts are fixed points.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"day >= DATE '2026-10-01' AND surface = 'home'", "version < 3", "a == 1", "((((a", "NOT NOT a IN (1,2.5e-3,-7)",
		`"quo""ted" LIKE 'x%' OR NOT (a AND b) AND c IS NOT NULL`, "i BETWEEN 1 AND 2 AND l NOT BETWEEN i AND 9e18",
		"q < TIMESTAMP '2026-10-01T12:00:00.123456+02:00' OR t = TIME '12:00'", "x = X'00ff' OR f > 1e39 OR g < -1e400",
		"n > -1.005 AND m IN (1e-20, .5, 5.)", "r < '1500-01-01' or v = date'2026-10-01'", "b = TRUE OR c", "s.t.u = 'é'",
		`s LIKE 'x%' AND u NOT LIKE '\_\\%' OR s LIKE '%'`, "w = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", `s LIKE '\'`,
		"i = 1 OR s = 'it''s' AND j IN (3, 2, 1)", "\x00", "a\u00a0= 1", "d = '2026-02-30'", "5 BETWEEN 1 AND i", "1e999999999 < i",
	} {
		f.Add(seed)
	}
	schema := everyType()
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			wantInvalid(t, err, len(text))
			return
		}
		canonical := e.String()
		again, err := Parse(canonical)
		require.NoError(t, err, canonical)
		require.Equal(t, canonical, again.String())
		require.Equal(t, e.Columns(), again.Columns())

		bound, err := e.Bind(schema)
		if err != nil {
			wantInvalid(t, err, len(text))
			_, err = again.Bind(schema)
			require.Error(t, err)
			return
		}
		fromCanonical, err := again.Bind(schema)
		require.NoError(t, err)
		require.Equal(t, bound.String(), fromCanonical.String())
		if len(bound.String()) <= MaxText {
			require.Equal(t, bound.String(), bind(t, bound.String(), schema).String())
		}
		bound.MayMatch(func(string) (Range, bool) { return Unbounded(1), true })
	})
}

func wantInvalid(t *testing.T, err error, length int) {
	t.Helper()
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.NotEmpty(t, fault.As(err).Faults)
	for _, field := range fault.As(err).Faults {
		require.LessOrEqual(t, field.Position, length+1, "%v", err)
		require.NotEmpty(t, field.Message)
	}
}

// FuzzParseValue: no text makes the parser or the binder panic, every error is Invalid with positions
// within the text, and canonical texts are fixed points, also after a substitution.
func FuzzParseValue(f *testing.F) {
	for _, seed := range []string{
		"i / nullif(l, 0)", "- -5 - -i", "CASE WHEN i > 1 AND l / i > 2 THEN f ELSE g END", "TRY_CAST(s AS decimal(10, 2))",
		"case case when b then i end when 1 then 2 end", "coalesce(i, 1, l) % 3 || s", "bucketize(i, [1, 2.5, -3e1])", "(i = 1) IS NULL",
		"NOT (b OR i IN (1, 2)) AND s LIKE 'a%'", `"case" + case`, "[1]", "CAST(NULL AS int) + i", "d + 1", "f(((i)))", "1 - i - (2 - 3)", "i BETWEEN l AND -3",
	} {
		f.Add(seed)
	}
	schema := everyType()
	with, err := ParseValue("i + 1")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseValue(text)
		if err != nil {
			wantInvalid(t, err, len(text))
			return
		}
		again, err := ParseValue(v.String())
		require.NoError(t, err, v.String())
		require.Equal(t, v.String(), again.String())
		bound, err := v.Bind(schema)
		if err != nil {
			wantInvalid(t, err, len(text))
		}
		fromCanonical, errAgain := again.Bind(schema)
		require.Equal(t, err == nil, errAgain == nil)
		if err == nil {
			require.True(t, arrow.TypeEqual(bound.Type(), fromCanonical.Type()))
			require.Subset(t, v.Columns(), bound.Columns())
		}
		if inlined, err := v.Substitute("i", with); err == nil {
			again, err := ParseValue(inlined.String())
			require.NoError(t, err, inlined.String())
			require.Equal(t, inlined.String(), again.String())
		}
	})
}
