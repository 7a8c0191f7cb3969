package cell_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/scenario/cell"
)

// TestTruth compares the truth of filters for a row with results computed by hand.
func TestTruth(t *testing.T) {
	t.Parallel()
	header := "i:int n:long f:float d:double m:decimal(9,2) b:boolean c:boolean s:string x:binary u:uuid day:date at:time ts:timestamp tz:timestamptz ns:timestamp_ns l:list<long> nan:double zero:double inf:float"
	line := `3 - 0.1 0.1 1.50 true - "a%b" AP8= 00000000-0000-0000-0000-0000000000ff 1969-12-31 12:30:00 2024-02-29T00:00:00 2024-02-29T12:00:00Z 1970-01-01T00:00:00.000000001 [1] NaN -0 -Inf`
	fields, err := scenario.Fields(header)
	require.NoError(t, err)
	rows, err := scenario.Rows(fields, []string{line})
	require.NoError(t, err)
	defer rows.Release()
	row := cell.Row{Cells: map[string]any{}, Types: map[string]arrow.DataType{}}
	for i, f := range fields {
		row.Cells[f.Name], row.Types[f.Name] = scenario.Value(rows.Column(i), 0), f.Type
	}
	for want, filters := range map[cell.Truth][]string{
		cell.IsTrue: {
			"i = 3", "i<>4 and 2.5 < i", "i < 3.5 AND i > 2.99", "i BETWEEN 3 AND 3", "i NOT BETWEEN 4 AND 9", "i IN (1, 3)", "i NOT IN (1)", "i != 1e20",
			"n IS NULL", "NOT (n IS NOT NULL)", "n = 1 OR i = 3", "NOT (n = 1 AND i = 4)",
			"f = 0.1", "d = 0.1", "f < 1e39", "f > -1e39", "f < 1e400", "m = 1.5", "m = 1.500", "m > 1.499", "m <> 1.501",
			"b", "b = TRUE", "b > FALSE", "NOT (NOT b)", "TRUE", "NOT FALSE", "b IN (FALSE, TRUE)",
			"s LIKE 'a%'", `s LIKE 'a\%%'`, "s NOT LIKE 'b%'", "s LIKE '%'", "s LIKE '_%'", "s > 'a'", "s < 'a''b' OR s = 'a%b'", "x = X'00ff'", "x < X'01'",
			"u = '00000000-0000-0000-0000-0000000000FF'", "u = X'000000000000000000000000000000ff'", "u < x",
			"day = '1969-12-31'", "day < DATE '1970-01-01'", "at = TIME '12:30'", "at > '12:29:59.9999999'", "ts = DATE '2024-02-29'", "ts < TIMESTAMP '2024-02-29 00:00:00.0000001'",
			"tz = TIMESTAMP '2024-02-29 14:00:00+02:00'", "tz = '2024-02-29T12:00:00Z'", "tz = '2024-02-29 12:00'", "ns > '1970-01-01'", "l IS NOT NULL",
			"nan = nan", "nan > 1e400", "nan > d", "nan >= nan", "zero = 0", "zero = -0", "zero >= 0", "inf < -1e39", "inf < -3e38", `"i" = 3`, "i = i", "f = f",
		},
		cell.IsFalse: {
			"i = 4", "i IN (1, 2)", "n IS NOT NULL", "n = 1 AND i = 4", "NOT b", "s LIKE 'A%'", "nan < 1e400", "inf > -1e39", "f > 1e39", "l IS NULL", "FALSE", "i NOT IN (3)", "i NOT BETWEEN 1 AND 3", "u >= x",
		},
		cell.IsUnknown: {"n = 1", "n <> 1", "NOT (n = 1)", "n IN (1, 2)", "n NOT IN (1)", "n BETWEEN 1 AND 2", "c", "NOT c", "n = 1 AND i = 3", "n = 1 OR i = 4", "n = n", "i < n", "i BETWEEN n AND 4"},
	} {
		for _, filter := range filters {
			tree, err := cell.ParseFilter(filter)
			require.NoError(t, err)
			require.Equal(t, want, tree.Truth(row), filter)
			again, err := cell.ParseFilter(tree.String())
			require.NoError(t, err)
			require.Equal(t, tree, again, filter)
		}
	}
	for _, filter := range []string{"i =", "(i = 1", "i = 1)", "i 1", "NOT", "i NOT 1", "i IN 1", "#"} {
		_, err := cell.ParseFilter(filter)
		require.Error(t, err, filter)
	}
}

func TestSmallerFilters(t *testing.T) {
	t.Parallel()
	tree, err := cell.ParseFilter("a IN (1, 2) AND (b = 1 OR NOT (c = 2)) AND d = 3")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, tree.Columns())
	require.Len(t, tree.Conjuncts(), 3)
	var texts []string
	for _, smaller := range tree.Smaller() {
		texts = append(texts, smaller.String())
	}
	require.ElementsMatch(t, []string{
		"a IN (1, 2)", "b = 1 OR (NOT c = 2)", "d = 3",
		"(b = 1 OR (NOT c = 2)) AND d = 3", "a IN (1, 2) AND d = 3", "a IN (1, 2) AND (b = 1 OR (NOT c = 2))",
		"a IN (2) AND (b = 1 OR (NOT c = 2)) AND d = 3", "a IN (1) AND (b = 1 OR (NOT c = 2)) AND d = 3",
		"a IN (1, 2) AND b = 1 AND d = 3", "a IN (1, 2) AND (NOT c = 2) AND d = 3", "a IN (1, 2) AND (b = 1 OR c = 2) AND d = 3",
	}, texts)
}
