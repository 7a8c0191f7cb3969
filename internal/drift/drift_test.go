package drift_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/stats"
)

// profile returns the profile of a column of values, which are repeated.
func profile(t *testing.T, of arrow.DataType, values string, times int) *stats.Profile {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: of, Nullable: true}}, nil)
	rows := strings.Repeat(","+`{"v":`+strings.ReplaceAll(values, ",", `},{"v":`)+`}`, times)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+rows[1:]+"]"))
	require.NoError(t, err)
	p := stats.NewPart(schema.Fields(), stats.Sampling{})
	_, err = p.Select(b, make([]int64, b.NumRows()))
	require.NoError(t, err)
	require.NoError(t, p.Add(b, memory.DefaultAllocator))
	return p.Outline().Profiles(0, "v")[0]
}

var (
	long   = arrow.PrimitiveTypes.Int64
	double = arrow.PrimitiveTypes.Float64
	text   = arrow.BinaryTypes.String
	clock  = arrow.FixedWidthTypes.Timestamp_us
)

// Each measure finds its change, and no other.
//
// spec: stats-24, stats-25, stats-30
func TestMeasures(t *testing.T) {
	for name, c := range map[string]struct {
		of       arrow.DataType
		base     string
		value    string
		measures string
		text     string
	}{
		"equal":               {double, "1.5,2,3,null", "1.5,2,3,null", "", ""},
		"nulls":               {arrow.FixedWidthTypes.Date32, `"2026-10-01","2026-10-02",null,"2026-10-03"`, `"2026-10-01",null`, "nulls", "nulls are 50% of the rows, and were 25% (limit 6.59%)"},
		"later days":          {arrow.FixedWidthTypes.Date32, `"2026-10-01"`, `"2027-10-01"`, "", ""},
		"NaN":                 {double, "1,2,3,4", `1,2,"NaN",3,4,"+Inf"`, "not_finite", "NaN and infinite numbers are 33.3% of the values, and were 0%"},
		"another unit":        {double, "1,2,3,4,5,6", "1000,2000,3000,4000,5000,6000", "unit top mean quantile psi", "the median size is 3000, and was 3: 1000 times as large, about × 1000, as if the unit had changed (limit 1.5 times)"},
		"a smaller unit":      {long, "60,120,180", "1,2,3", "unit top mean quantile psi", "about ÷ 60"},
		"zeros for values":    {long, "1,2,3,4", "1,2,3,0", "zeros top mean quantile psi", "zeros or empty texts are 25% of the values, and were 0%"},
		"a default for texts": {text, `"a","b","c","d"`, `"a","b","c","unknown"`, "top psi", "the value d is 0% of the values, and were 25%"},
		"another share":       {text, `"a","a","b"`, `"a","b","b"`, "top psi", "the value a is 33.3% of the values"},
		"empty texts":         {text, `"a","b"`, `"a",""`, "zeros top psi", "zeros or empty texts are 50%"},
		"a constant":          {double, "2", "3", "top", ""},
		"booleans":            {arrow.FixedWidthTypes.Boolean, "true,false", "true,true,true,false", "top psi", "the value false is 25%"},
		"local times as UTC":  {clock, `"2026-10-01T09:10:00Z","2026-10-01T13:40:00Z"`, `"2026-10-01T04:10:00Z","2026-10-01T08:40:00Z"`, "shift", "all times are about 5 h earlier, as if a local time had been written as UTC (limit 20 min)"},
		"past midnight":       {clock, `"2026-10-01T22:10:00Z","2026-10-01T23:40:00Z"`, `"2026-10-02T03:40:00Z","2026-10-02T05:10:00Z"`, "shift", "all times are about 5.5 h later, as if"},
		"a later job":         {clock, `"2026-10-01T09:10:00Z"`, `"2026-10-02T09:55:00Z"`, "shift", "all times are about 45 min later (limit 20 min)"},
		"a few minutes later": {clock, `"2026-10-01T09:10:00Z"`, `"2026-10-02T09:29:00Z"`, "", ""},
		"other times":         {clock, `"2026-10-01T09:10:00Z","2026-10-01T10:10:00Z"`, `"2026-10-01T09:10:00Z","2026-10-01T20:10:00Z"`, "", ""},
		"the other sign":      {double, "1,2,3", "-1,-2,-3", "top mean quantile psi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var measures, texts []string
			for _, a := range drift.Alarms(drift.Compare(profile(t, c.of, c.base, 1000), profile(t, c.of, c.value, 1000), drift.NewTest(100))) {
				if len(measures) == 0 || measures[len(measures)-1] != string(a.Measure) {
					measures = append(measures, string(a.Measure))
				}
				texts = append(texts, a.Text())
			}
			require.Equal(t, c.measures, strings.Join(measures, " "))
			require.Contains(t, strings.Join(texts, "\n"), c.text)
		})
	}
}

// The same change is an alarm among many rows, and none among few.
//
// spec: stats-25
func TestLimitsDependOnRows(t *testing.T) {
	for _, c := range []struct {
		rows  int
		alarm bool
	}{{20, false}, {2000, true}} {
		out := drift.Compare(profile(t, double, "1,2,null", c.rows), profile(t, double, "1,2,null,null", c.rows), drift.NewTest(1000))
		require.Equal(t, c.alarm, len(drift.Alarms(out)) > 0, "%d rows: %+v", c.rows, out)
	}

	fewer := drift.Matched{Rows: 10_000, Matched: 5000}
	require.Len(t, drift.Alarms(drift.Matches("history", drift.Matched{Rows: 10_000, Matched: 9000}, fewer, drift.NewTest(1))), 1)
	require.Empty(t, drift.Alarms(drift.Matches("history", drift.Matched{}, fewer, drift.NewTest(1))))
	require.Contains(t, drift.Matches("history", drift.Matched{Rows: 10_000, Matched: 9000}, fewer, drift.NewTest(1))[0].Text(), "rows with a match are 50% of the rows, and were 90%")
}

// All rows stand for partitions that differ as they do, unless a few of them differ most. The alarms of these partitions stay alarms
// in the changes.
//
// spec: stats-26
func TestAlarmsOfAllRowsStandForTheirPartitions(t *testing.T) {
	change := func(partition string, alarm bool) drift.Change {
		return drift.Change{Column: "v", Partition: partition, Measure: drift.Nulls, Change: 0.3, Limit: 0.1, Alarm: alarm}
	}
	settled := func(partitions, number int, alarm bool) (own, part int) {
		var all []drift.Change
		for p := range partitions {
			all = append(all, change(day(p), alarm))
		}
		whole := change("", true)
		all = append(drift.Settle([]drift.Change{whole}, all, number), whole)
		require.Len(t, drift.Where(all)(whole), partitions)
		for _, c := range all {
			require.True(t, c.Alarm, "its change is over its limit")
			if c.PartOfWhole {
				part++
			}
		}
		return len(drift.Alarms(all)) - 1, part
	}
	for _, c := range []struct {
		partitions, number int
		alarm              bool // whether the partitions have alarms before they are settled
		own, part          int
	}{{2, 5, true, 2, 0}, {3, 5, true, 0, 3}, {5, 5, false, 0, 5}} {
		own, part := settled(c.partitions, c.number, c.alarm)
		require.Equal(t, []int{c.own, c.part}, []int{own, part}, "%+v", c)
	}
}

// spec: stats-32
func TestDurationsHaveTheUnitThatFits(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0 s", 12.345: "12.3 s", -119: "-119 s", 120: "2 min", 7199: "120 min", 18840: "5.23 h", -18000: "-5 h", 432000: "5 d"} {
		require.Equal(t, want, drift.Seconds(seconds))
	}
	from, to := 2084., 18840.
	age := drift.Change{Measure: drift.Unit, Base: &from, Value: &to, Change: to / from, Limit: 1.5, InSeconds: true}
	require.Equal(t, "the median size is 5.23 h, and was 34.7 min: 9.04 times as large (limit 1.5 times)", age.Text())
}

// spec: stats-62
func TestAColumnThatPredictsTheLabelMuchBetterIsAnAlarm(t *testing.T) {
	for _, c := range []struct {
		base, of float64
		rarer    int64
		measure  stats.LabelMeasure
		risen    bool
	}{
		{0.71, 0.95, 3000, stats.AUC, true},
		{0.71, 0.05, 3000, stats.AUC, true}, // the other direction predicts as well
		{0.71, 0.29, 3000, stats.AUC, false},
		{0.71, 0.74, 1_000_000, stats.AUC, false}, // below the floor
		{0.71, 0.77, 1_000_000, stats.AUC, true},
		{0.71, 0.77, 300, stats.AUC, false}, // chance explains it
		{0.95, 0.71, 3000, stats.AUC, false},
		{0.71, 0.95, 3000, stats.Correlation, false},
	} {
		label := func(value float64) *stats.Label {
			return &stats.Label{Measure: c.measure, Columns: []stats.Relation{{Column: "v", Value: value, Rarer: c.rarer}}}
		}
		base, of := label(c.base), label(c.of)
		of.Columns = append(of.Columns, stats.Relation{Column: "new", Value: 0.8, Rarer: c.rarer})
		drift.Labels(base, of)
		require.Equal(t, c.risen, len(of.Alarms()) > 0, "%+v: %+v", c, of)
		require.InDelta(t, c.base, *of.Columns[0].Base, 0)
		require.Nil(t, of.Columns[1].Base)
		drift.Labels(nil, of)
		drift.Labels(base, nil)
	}
}
