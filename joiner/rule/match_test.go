package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
)

// Few matches are none of 100 rows, or less than 1 % of 10,000. Of an anti join and of an overlay,
// they are none.
func TestFewMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows, matched int64
		few, none     bool
	}{
		{rows: 0},
		{rows: 99},
		{rows: 100, few: true, none: true},
		{rows: 100, matched: 1},
		{rows: 9_999, matched: 1},
		{rows: 10_000, matched: 0, few: true, none: true},
		{rows: 10_000, matched: 99, few: true},
		{rows: 10_000, matched: 100},
		{rows: 10_001, matched: 100, few: true},
		{rows: 10_001, matched: 101},
	} {
		for _, k := range rule.Kinds() {
			want := c.few
			if k == rule.Anti || k == rule.Overlay {
				want = c.none
			}
			require.Equal(t, want, k.FewMatches(c.rows, c.matched), "%s: %d of %d", k, c.matched, c.rows)
		}
	}
	require.Equal(t, "0 of 1 training row matches", rule.MatchText(1, 0))
	require.Equal(t, "5 of 7 training rows match (71.43%)", rule.MatchText(7, 5))
}
