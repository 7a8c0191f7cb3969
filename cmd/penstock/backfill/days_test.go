package backfill_test

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/backfill"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// dated returns a dataset whose training table is partitioned by a column day of a type, and by buckets.
func dated(of arrow.DataType) backfill.Target {
	to := home(partition(2, catalog.Identity, 0), partition(1, catalog.Bucket, 12))
	to.Training.Fields[1].Type = of
	return to
}

func day(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }

// The statement that fills the table selects the days of a range, whatever the type of the column that has them.
//
// spec: backfill-12
func TestDaysOfTheRows(t *testing.T) {
	for text, of := range map[string]arrow.DataType{
		"AND `day` >= DATE '2026-11-01' AND `day` < DATE '2026-11-08';":                                         arrow.FixedWidthTypes.Date32,
		"AND `day` >= TIMESTAMP_NTZ '2026-11-01 00:00:00' AND `day` < TIMESTAMP_NTZ '2026-11-08 00:00:00';":     &arrow.TimestampType{Unit: arrow.Microsecond},
		"AND `day` >= TIMESTAMP '2026-11-01 00:00:00+00:00' AND `day` < TIMESTAMP '2026-11-08 00:00:00+00:00';": arrow.FixedWidthTypes.Timestamp_us,
	} {
		to := dated(of)
		script, err := backfill.Add(to, backfill.StagingPlan{Table: "features.x", Features: features(t, "x:float"), From: day(1), To: day(7)})
		require.NoError(t, err)
		require.Contains(t, script.SQL, text)
	}
	to := dated(arrow.FixedWidthTypes.Date32)
	plan := backfill.StagingPlan{Table: "features.x", Features: features(t, "x:float")}
	plan.To = day(7)
	script, err := backfill.Add(to, plan)
	require.NoError(t, err)
	require.NotContains(t, script.SQL, ">= DATE")
	for says, change := range map[string]func(*backfill.StagingPlan){
		"no partitions of time": func(p *backfill.StagingPlan) { p.Unaligned = true },
		"before the first":      func(p *backfill.StagingPlan) { p.From = day(9) },
	} {
		other := plan
		change(&other)
		_, err = backfill.Add(to, other)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, says)
	}
	_, err = backfill.Add(dated(arrow.PrimitiveTypes.Int64), plan)
	require.ErrorContains(t, err, "neither a date nor a timestamp")
}

// The layout has the flags with which penstock stage makes the same table.
//
// spec: backfill-13
func TestLayoutForStage(t *testing.T) {
	to := dated(arrow.FixedWidthTypes.Date32)
	plan := backfill.StagingPlan{Table: "features.x", Features: features(t, "x:float")}
	layout := func() backfill.Layout {
		script, err := backfill.Add(to, plan)
		require.NoError(t, err)
		return script.Layout
	}
	got := layout()
	require.Equal(t, []backfill.Column{{Name: "request_id", Type: "BIGINT"}, {Name: "day", Type: "DATE"}, {Name: "x", Type: "FLOAT"}}, got.Columns)
	require.Equal(t, "day", got.Aligned)
	require.Equal(t, []string{"--key", "request_id", "--partition", "day", "--buckets", "12"}, got.StageFlags)
	plan.Sort, plan.Buckets = []string{"x"}, 24
	require.Equal(t, []string{"--key", "request_id", "--partition", "day", "--buckets", "24", "--sort", "x"}, layout().StageFlags)
	to.Training.Specs[1][0].Transform = catalog.Transform{Kind: catalog.Month}
	require.Equal(t, "month(day)", layout().StageFlags[3])
	to.Training.Specs[1] = to.Training.Specs[1][1:]
	plan.Sort = nil
	require.Equal(t, []string{"--key", "request_id", "--buckets", "24"}, layout().StageFlags)
	to.Training.Specs[1] = append(to.Training.Specs[1], partition(1, catalog.Truncate, 2))
	require.Nil(t, layout().StageFlags, "the bucket is not the last field")
}
