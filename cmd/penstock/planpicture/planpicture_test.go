package planpicture_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/planpicture"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/loader/plan/shape"
)

func runs(rates ...int64) (out []flight.Run) {
	for i, matched := range rates {
		out = append(out, flight.Run{Ended: time.Unix(0, 0).Add(time.Duration(i) * 12 * time.Hour), Matches: []flight.RunMatch{{Entry: "price", Rows: 1000, Matched: matched}, {Entry: "none"}}})
	}
	return out
}

// The last rate is compared with the last one that is a day older, or else with the first one.
//
// spec: ui-33
func TestRatesAreComparedWithTheDayBefore(t *testing.T) {
	for _, c := range []struct {
		rates      []int64
		then       float64
		hoursApart int
		fell       bool
	}{
		{rates: []int64{900}},
		{rates: []int64{900, 300}, then: 0.9, hoursApart: 12, fell: true},
		{rates: []int64{100, 900, 950, 300}, then: 0.9, hoursApart: 24, fell: true},
		{rates: []int64{900, 950, 895}, then: 0.9, hoursApart: 24},
		{rates: []int64{300, 900, 900}, then: 0.3, hoursApart: 24},
	} {
		got := planpicture.Rates(runs(c.rates...))
		require.Len(t, got.Pictures, 1)
		require.Len(t, got.Changes, 1, "an entry without rows has no rate")
		change := got.Changes[0]
		require.InDelta(t, float64(c.rates[len(c.rates)-1])/1000, change.Now, 1e-9)
		require.InDelta(t, c.then, change.Then, 1e-9)
		require.Equal(t, c.fell, change.Fell)
		require.Equal(t, c.hoursApart == 0, change.ThenTime.IsZero())
		if c.hoursApart > 0 {
			require.Equal(t, time.Duration(c.hoursApart)*time.Hour, change.NowTime.Sub(change.ThenTime))
		}
	}
	require.Contains(t, planpicture.Rates(runs(900, 300)).Pictures[0].Picture.Inline(), "marked at 01-01 12:00: 30%")
	require.Empty(t, planpicture.Rates(nil).Pictures)
	require.Empty(t, planpicture.Rates([]flight.Run{{}}).Changes)
}

// The picture of a plan is one file, which loads nothing, and says what its charts show.
//
// spec: ui-32
func TestPictureOfAPlan(t *testing.T) {
	const hostile = "</text><script>alert(1)</script>\x1b"
	of := flight.PlanShape{Shape: shape.Shape{
		Plan: "p", Rows: 4000, Splits: 3, Training: shape.Files{Count: 2, Bytes: 1 << 20, Rows: 4000},
		Buckets: []shape.Bucket{{From: 0, To: 0, Rows: 1000, Joined: []int64{5, 0}}, {From: 1, To: 1, Rows: 3000, Joined: []int64{5, 0}}},
		Lanes:   []shape.Lane{{Rows: 2000}, {From: 1, To: 1, Rows: 2000}},
		Staging: []shape.Entry{{Name: hostile, Groups: 1, Files: shape.Files{Count: 7, Small: 7}}, {Name: "spare", Unread: true}},
	}, Runs: runs(900, 300)}
	text := planpicture.File(of)
	require.True(t, strings.HasPrefix(text, "<svg xmlns=\"http://www.w3.org/2000/svg\""))
	for _, word := range []string{
		"Plan p of 4,000 stored rows", "training table: 2 files, 0 of them small, 1.0 MiB, 4,000 rows, read in 3 splits", "7 files, 7 of them small",
		"spare: not read", "Training rows by bucket: the largest has 3,000, 1.5 × the mean", "Training rows by lane", "Match rates of the last streams",
	} {
		require.Contains(t, text, word)
	}
	for _, word := range []string{"<script", "\x1b", "href", "url(", "@import"} {
		require.NotContains(t, text, word)
	}
	require.Contains(t, planpicture.File(flight.PlanShape{}), "</svg>", "a plan without rows")
}
