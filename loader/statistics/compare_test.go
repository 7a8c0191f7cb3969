package statistics_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage/stagetest"
	"github.com/penstock/penstock/loader/statistics"
)

// compare compares snapshots of the table of a rig.
func compare(t *testing.T, r *stagetest.Rig, request statistics.Request, base string) (*statistics.Result, error) {
	t.Helper()
	held, err := r.Budget.Reserve("history", 0)
	require.NoError(t, err)
	defer held.Release()
	request.History, err = r.Tables.History(t.Context(), stagetest.History, held)
	require.NoError(t, err)
	used := r.Budget.InUse()
	out, err := statistics.New(statistics.Options{
		Tables: &r.Tables, Read: r.Tables.Read(r.Budget), Budget: r.Budget, Cores: cores.New(3),
	}).Compare(t.Context(), request, statistics.Request{History: request.History, At: base})
	require.Equal(t, used, r.Budget.InUse(), "nothing stays reserved")
	return out, err
}

// days returns rows of some days, in which country is null with a probability that depends on the day.
func days(seed uint64, from, to, rows int, nulls func(day int) float64) string {
	rng := rand.New(rand.NewPCG(seed, 31))
	var out strings.Builder
	for day := from; day < to; day++ {
		for i := range rows {
			country := strconv.Quote([]string{"CH", "DE", "FR"}[rng.IntN(3)])
			if rng.Float64() < nulls(day) {
				country = "null"
			}
			fmt.Fprintf(&out, `,{"id": %d, "day": "2026-10-%02d", "country": %s}`, day*100_000+i, day, country)
		}
	}
	return "[" + out.String()[1:] + "]"
}

// One bad day is found, both if the base has the day and if it does not.
//
// spec: stats-20, stats-21, stats-22
func TestABadDayIsNamed(t *testing.T) {
	usual := func(int) float64 { return 0.1 }
	bad := func(day int) float64 { return map[bool]float64{true: 0.5, false: 0.1}[day == 7] }
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	stage := func(mode dataset.WriteMode, rows string) string {
		return strconv.FormatInt(r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: mode}, stagetest.Schema(), rows).Snapshot, 10)
	}
	base := stage("", days(1, 1, 5, 500, usual))
	more := stage("", days(2, 5, 9, 500, bad))
	again := stage(dataset.WriteReplace, days(3, 1, 9, 500, usual))
	for _, c := range []struct{ at, base string }{{more, base}, {again, more}} {
		got, err := compare(t, r, statistics.Request{At: c.at, Columns: []string{"country", "day"}}, c.base)
		require.NoError(t, err)
		against := got.Against
		require.Equal(t, c.base, strconv.FormatInt(against.Snapshot, 10))
		require.Equal(t, "day", against.Partition)
		require.Len(t, against.Partitions, 8)
		require.EqualValues(t, 4000, got.Rows)
		require.NotEmpty(t, against.Alarms)
		first := against.Alarms[0]
		require.Equal(t, "country 2026-10-07 nulls", strings.Join([]string{first.Column, first.Partition, string(first.Measure)}, " "))
		require.Contains(t, first.Text, "nulls are ")
		for _, a := range against.Alarms {
			require.True(t, a.Partition == "2026-10-07" || a.Partition == "", "%+v", a)
			require.Equal(t, "country", a.Column)
		}
	}
	got, err := compare(t, r, statistics.Request{At: base}, base)
	require.NoError(t, err)
	require.Empty(t, got.Against.Alarms)
	require.NotEmpty(t, got.Against.Changes)
	for _, c := range got.Against.Changes {
		require.True(t, c.Change == 0 || c.Measure == drift.Unit && c.Change == 1, "%+v", c)
	}
	_, err = compare(t, r, statistics.Request{}, "mian")
	require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
}

// The alarm of all rows says in which days it is found, whether these days have alarms of their own or not.
//
// spec: stats-26, stats-29
func TestAnAlarmOfAllRowsSaysSinceWhen(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	stage := func(rows string) string {
		write := dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}
		return strconv.FormatInt(r.Stage(t, write, stagetest.Schema(), rows).Snapshot, 10)
	}
	base := stage(days(1, 1, 9, 500, func(int) float64 { return 0.1 }))
	for _, c := range []struct {
		bad  []int
		text string
		part bool // whether the days are part of the whole
	}{
		{[]int{1, 2, 3, 4, 5, 6, 7, 8}, "; in all 8 partitions", true},
		{[]int{4, 5, 6, 7, 8}, "; in 5 of 8 partitions, from 2026-10-04 on", true},
		{[]int{2, 3, 4}, "; in 3 of 8 partitions, from 2026-10-02 to 2026-10-04", false},
		{[]int{2, 8}, "; in 2 of 8 partitions: 2026-10-02, 2026-10-08", false},
		{[]int{1, 2, 4, 6, 8}, "; in 5 of 8 partitions: 2026-10-01, 2026-10-02, 2026-10-04, 2026-10-06 and others, the last one 2026-10-08", true},
	} {
		at := stage(days(2, 1, 9, 500, func(day int) float64 { return map[bool]float64{true: 0.7, false: 0.1}[slices.Contains(c.bad, day)] }))
		got, err := compare(t, r, statistics.Request{At: at, Columns: []string{"country"}}, base)
		require.NoError(t, err)
		var text string
		in := 0
		for _, a := range got.Against.Alarms {
			if a.Measure == drift.Nulls && a.Partition == "" {
				text, in = a.Text, len(a.In)
			}
			require.True(t, a.Partition == "" || !c.part || a.Measure != drift.Nulls, "%+v", a)
		}
		require.Contains(t, text, " (limit ")
		require.True(t, strings.HasSuffix(text, c.text), text)
		require.Len(t, c.bad, in)
		for _, change := range got.Against.Changes {
			if change.Measure == drift.Nulls && change.Partition != "" {
				bad := slices.ContainsFunc(c.bad, func(day int) bool { return change.Partition == fmt.Sprintf("2026-10-%02d", day) })
				require.Equal(t, bad, change.Alarm, "%+v", change)
				require.Equal(t, bad && c.part, change.PartOfWhole, "%+v", change)
			}
		}
	}
}

// spec: stats-23
func TestComparisonsWithoutValues(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	write := dataset.TableWrite{Table: stagetest.History}
	base := r.Stage(t, write, stagetest.Schema(), strings.ReplaceAll(days(1, 1, 2, 500, func(int) float64 { return 0 }), "FR", "CH"))
	r.Stage(t, write, stagetest.Schema(), days(2, 2, 3, 500, func(int) float64 { return 0 }))
	top := func(noValues bool) (of string, n int) {
		got, err := compare(t, r, statistics.Request{NoValues: noValues}, strconv.FormatInt(base.Snapshot, 10))
		require.NoError(t, err)
		for _, a := range got.Against.Alarms {
			if a.Measure == drift.Top {
				of, n = of+a.Of, n+1
				require.Equal(t, noValues, !strings.Contains(a.Text, "the value "+a.Of+" is") || a.Of == "")
			}
		}
		return of, n
	}
	of, n := top(false)
	require.NotEmpty(t, of)
	hidden, same := top(true)
	require.Equal(t, n, same)
	require.Empty(t, hidden)
}

// The histograms of a base have the bins of the table.
//
// spec: stats-44
func TestABaseHasTheBinsOfTheTable(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	write := dataset.TableWrite{Table: stagetest.History}
	base := r.Stage(t, write, stagetest.Schema(), `[{"id": 7, "day": "2026-10-01"}, {"id": 250, "day": "2026-10-01"}]`)
	r.Stage(t, write, stagetest.Schema(), `[{"id": 100, "day": "2026-10-02"}, {"id": 199, "day": "2026-10-02"}]`)
	got, err := compare(t, r, statistics.Request{}, strconv.FormatInt(base.Snapshot, 10))
	require.NoError(t, err)
	of, bins := column(t, got, "id").Histogram, column(t, &statistics.Result{Columns: got.Against.Columns}, "id").Histogram
	require.Equal(t, of.Edges, bins.Edges)
	require.EqualValues(t, 4, total(of))
	require.EqualValues(t, 2, total(bins))
	require.EqualValues(t, 1, bins.Counts[0])
	require.EqualValues(t, 1, bins.Counts[len(bins.Counts)-1])
}

// total returns the number of values in bins.
func total(h *stats.Histogram) (n int64) {
	for _, v := range h.Counts {
		n += v
	}
	return n
}

// A day of which three tenths of the keys are written in another form is found, and new keys are no change.
//
// spec: stats-24, stats-35
func TestKeysInAnotherFormAreNamed(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	keys := func(seed uint64, of func(day, i int, key string) string) string {
		rng := rand.New(rand.NewPCG(seed, 37))
		var out strings.Builder
		for day := 1; day <= 8; day++ {
			for i := range 400 {
				key := of(day, i, fmt.Sprintf("%08x-%08x", rng.Uint32(), rng.Uint32()))
				fmt.Fprintf(&out, `,{"id": %d, "day": "2026-10-%02d", "country": %q}`, rng.Uint32(), day, key)
			}
		}
		return "[" + out.String()[1:] + "]"
	}
	stage := func(rows string) string {
		write := dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}
		return strconv.FormatInt(r.Stage(t, write, stagetest.Schema(), rows).Snapshot, 10)
	}
	same := func(_, _ int, key string) string { return key }
	base := stage(keys(1, same))
	for _, noValues := range []bool{false, true} {
		at := stage(keys(2, func(day, i int, key string) string {
			if day == 7 && i%10 < 3 {
				return strings.ToUpper(strings.ReplaceAll(key, "-", ""))
			}
			return key
		}))
		got, err := compare(t, r, statistics.Request{At: at, Columns: []string{"country"}, NoValues: noValues}, base)
		require.NoError(t, err)
		first := got.Against.Alarms[0]
		require.Equal(t, "country 2026-10-07 form", strings.Join([]string{first.Column, first.Partition, string(first.Measure)}, " "))
		require.Contains(t, first.Text, "texts with upper-case letters, digits and another length are 30% of all texts that are not empty, and were 0% (limit ")
	}
	got, err := compare(t, r, statistics.Request{At: stage(keys(3, same)), Columns: []string{"country"}}, base)
	require.NoError(t, err)
	require.Empty(t, got.Against.Alarms)
}
