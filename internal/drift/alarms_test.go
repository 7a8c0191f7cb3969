package drift_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/drift"
)

// A match rate comes before the alarms of its entry's columns, and explains nulls that grew by at most as much as it fell. Other alarms
// stay in the order of their size.
//
// spec: stats-56, stats-57
func TestMatchRatesComeBeforeTheirEffects(t *testing.T) {
	change := func(entry, column, partition string, measure drift.Measure, size float64) drift.Change {
		return drift.Change{Column: column, Entry: entry, Partition: partition, Measure: measure, Change: size, Limit: 0.01, Alarm: true}
	}
	quiet := change("f", "f", "b", drift.MatchRate, -0.2)
	quiet.Alarm = false
	got := drift.Alarms([]drift.Change{
		change("g", "x", "", drift.Nulls, 0.9),
		change("f", "v", "", drift.Nulls, 0.3),
		change("f", "v", "", drift.Mean, 0.6),
		change("f", "w", "", drift.Nulls, 0.5),
		change("f", "v", "a", drift.Nulls, 0.31),
		change("f", "v", "b", drift.Nulls, 0.2),
		change("f", "f", "a", drift.MatchRate, -0.32),
		change("f", "f", "", drift.MatchRate, -0.3),
		change("", "f", "", drift.Nulls, 0.2),
		quiet,
	})
	var lines []string
	for _, c := range got {
		lines = append(lines, fmt.Sprintf("%s.%s %s %s %v %s", c.Entry, c.Column, c.Partition, c.Measure, c.Change, c.Cause))
	}
	require.Equal(t, []string{
		"g.x  nulls 0.9 ",
		"f.f a match_rate -0.32 ", "f.f  match_rate -0.3 ",
		"f.v  nulls 0.3 match_rate", "f.v  mean 0.6 ", "f.w  nulls 0.5 ", "f.v a nulls 0.31 match_rate", "f.v b nulls 0.2 match_rate",
		".f  nulls 0.2 ",
	}, lines)
}

// A match rate is an alarm as soon as the nulls of rows without a match are.
//
// spec: stats-54
func TestFewMoreRowsWithoutAMatch(t *testing.T) {
	test := drift.NewTest(1)
	of := func(matched int64) drift.Matched { return drift.Matched{Rows: 1_000_000, Matched: matched} }
	require.True(t, drift.Matches("f", of(993_000), of(985_000), test)[0].Alarm)
	require.False(t, drift.Matches("f", of(993_000), of(992_000), test)[0].Alarm)
	clustered := drift.Matched{Rows: 1_000_000, Matched: 985_000, Effect: 10_000}
	require.False(t, drift.Matches("f", of(993_000), clustered, test)[0].Alarm, "there are only 100 independent rows")
}

// A change of all rows is not reported again for each partition, also if some partitions have too few rows for an alarm. Partitions that
// differ more are.
//
// spec: stats-26
func TestPartitionsThatDifferAsAllRowsDo(t *testing.T) {
	change := func(partition string, size float64, alarm bool) drift.Change {
		return drift.Change{Column: "v", Partition: partition, Measure: drift.Mean, Change: size, Limit: 0.3, Alarm: alarm}
	}
	alarms := func(partitions ...drift.Change) (out []string) {
		for _, c := range drift.Settle([]drift.Change{change("", 0.3, true)}, partitions, len(partitions)) {
			if c.Alarm && !c.PartOfWhole {
				out = append(out, c.Partition)
			}
		}
		return out
	}
	require.Equal(t, []string{"worst"}, alarms(change("a", 0.31, true), change("b", 0.2, false), change("c", 0.1, false), change("worst", 1, true)))
	require.Equal(t, []string{"a"}, alarms(change("a", 0.31, true), change("b", -0.29, false), change("c", 0.1, false)))
}
