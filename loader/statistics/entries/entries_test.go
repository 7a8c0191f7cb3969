package entries_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options returns the options to describe a dataset of a world.
func options(w *scenario.World, datasets ...dataset.Dataset) entries.Options {
	b := budget.New(1 << 30)
	for i := range datasets {
		datasets[i] = datasets[i].Defaults()
	}
	return entries.Options{Loader: loader.New(loader.Options{Datasets: datasets, Catalog: w, Scan: w.Scan, Budget: b}), Budget: b}
}

// describe describes a dataset.
func describe(t *testing.T, o entries.Options, request entries.Request) *entries.Result {
	t.Helper()
	used := o.Budget.InUse()
	out, err := entries.Describe(t.Context(), o, request)
	require.NoError(t, err)
	require.Equal(t, used, o.Budget.InUse(), "nothing stays reserved")
	return out
}

// Two thirds of the training rows match, but none of the second day, and each matching value is two hours older.
//
// spec: stats-50, stats-51, stats-52, stats-53
func TestEntriesAreDescribed(t *testing.T) {
	w := scenario.NewWorld()
	w.BatchRows = 100
	t.Cleanup(w.Release)
	const rows = 3000
	at := func(i int) time.Time {
		return time.Date(2026, 10, 1+i%3, 12, 0, 0, 0, time.UTC)
	}
	loadertest.Rows("ml.train", "id:long ts:timestamp", "day(ts) bucket(4,id)", rows, func(i int) string {
		return fmt.Sprint(i, " ", at(i).Format("2006-01-02T15:04:05"))
	}).In(t, w)
	loadertest.Rows("features.f", "id:long ts:timestamp v:double", "bucket(4,id)", 2*rows, func(i int) string {
		key := i / 2
		if at(key).Day() == 2 {
			return fmt.Sprint(1_000_000+i, " 2026-10-02T00:00:00 1")
		}
		return fmt.Sprint(key, " ", at(key).Add(-2*time.Hour).Format("2006-01-02T15:04:05"), " ", key%2)
	}).In(t, w)
	loadertest.Rows("features.g", "id:long", "bucket(4,id)", rows, func(i int) string { return strconv.Itoa(2 * i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{
		{
			Table: "features.f", Join: rule.Inner, Missing: rule.MissingError, Columns: []dataset.Column{{Column: "v"}},
			PointInTime: &dataset.PointInTime{Training: "ts", Staging: "ts", Tolerance: dataset.Lag{Time: 3 * time.Hour}},
		},
		{Table: "features.g", Join: rule.Anti, MinMatch: 0.9},
	}}
	o := options(w, d)
	got := describe(t, o, entries.Request{Dataset: "d"})
	require.EqualValues(t, rows, got.Rows)
	require.Equal(t, []entries.Partition{{"2026-10-01", 1000}, {"2026-10-02", 1000}, {"2026-10-03", 1000}}, got.Partitions)
	require.Len(t, got.Columns, 2)
	require.Len(t, got.Entries, 2)
	f, g := got.Entries[0], got.Entries[1]
	require.Equal(t, &entries.Matches{Rows: rows, Matched: 2000, MatchRate: 2. / 3, Duplicates: 2000}, f.Matches)
	require.Equal(t, []entries.PartitionMatch{{"2026-10-01", 1000, 1000, 1}, {"2026-10-02", 1000, 0, 0}, {"2026-10-03", 1000, 1000, 1}}, f.Partitions)
	require.Equal(t, &entries.Keys{Rows: 6000, Keys: 4000, DuplicateKeys: 2000, SurplusRows: 2000, OrphanKeys: 2000}, f.Keys)
	require.Equal(t, []string{"7200", "7200"}, []string{f.Age.Min.String(), f.Age.Max.String()})
	require.EqualValues(t, 2000, f.Age.Values)
	require.Equal(t, "s", f.AgeUnit)
	require.Len(t, f.Columns, 1, "the time of the entry is no column of the dataset")
	require.Equal(t, "v 3000 1000", fmt.Sprint(f.Columns[0].Name, " ", f.Columns[0].Rows, " ", f.Columns[0].Nulls))
	require.InDelta(t, 0.5, g.Matches.MatchRate, 0, "the rows that the entry drops count")
	require.Empty(t, g.Columns)
	require.Nil(t, g.Age)
	again, err := json.Marshal(describe(t, o, entries.Request{Dataset: "d"}))
	require.NoError(t, err)
	first, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))
	one := describe(t, o, entries.Request{Dataset: "d", Columns: []string{"v"}})
	require.Empty(t, one.Columns)
	require.Equal(t, f.Columns, one.Entries[0].Columns)
	for _, wrong := range []entries.Request{{Dataset: "dd"}, {Dataset: "d", Columns: []string{"vv"}}, {Dataset: "d", Columns: []string{"f matched"}}} {
		_, err = entries.Describe(t.Context(), o, wrong)
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
	}
}

// cases is the number of random cases.
func cases() uint64 {
	if os.Getenv("PENSTOCK_LONG") == "1" {
		return 1000
	}
	return 40
}

// Over tables of every layout and rule, the matching rows are those that a verification counts.
//
// spec: stats-51
func TestMatchesAreThoseOfVerifications(t *testing.T) {
	matched, missing, described := int64(0), int64(0), 0
	for seed := range cases() {
		c := scenario.Generate(9000+seed, 1+int(seed)%16, 1+int(seed)/16%16)
		c.Dataset.Training.Distinct = nil
		w, err := c.Make()
		require.NoError(t, err)
		d, err := c.Decoded()
		require.NoError(t, err)
		o := options(w, d)
		got, err := entries.Describe(t.Context(), o, entries.Request{Dataset: d.Name})
		if err != nil { // a layout or a cast that is refused
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			w.Release()
			continue
		}
		described++
		v, err := o.Loader.Verify(t.Context(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: d.Name}}}, nil)
		require.NoError(t, err)
		for i, table := range v.Tables[1:] {
			j, m := table.Join, got.Entries[i].Matches
			require.Equal(t, []int64{j.TrainingRows, j.Matched, j.NullKeys}, []int64{m.Rows, m.Matched, m.NullKeys}, "seed %d, %s: %s", seed, table.Name, v)
			total := int64(0)
			for _, p := range got.Entries[i].Partitions {
				total += p.Matched
			}
			require.True(t, got.Partition == "" || total == m.Matched)
			matched, missing = matched+m.Matched, missing+j.Missing
		}
		require.Zero(t, o.Budget.InUse())
		w.Release()
	}
	require.Greater(t, uint64(described), cases()/2)
	require.Positive(t, matched)
	require.Positive(t, missing)
}

// The rows that join the same staging row count as one: one of three items lost its values on one day, and no alarm is raised, since
// the day has only three independent rows. With a staging row for each training row, the same share of nulls is an alarm.
//
// spec: stats-58
func TestRowsOfOneStagingRowAreNotIndependent(t *testing.T) {
	const rows, days = 12_000, 4
	for name, c := range map[string]struct {
		keys   int
		entry  dataset.Staging
		alarms bool
	}{
		"point in time":      {3, dataset.Staging{PointInTime: &dataset.PointInTime{Training: "ts", Staging: "ts", Tolerance: dataset.Lag{Time: 24 * time.Hour}}}, false},
		"the same day":       {3, dataset.Staging{Align: &dataset.Align{Training: "ts", Staging: "ts"}}, false},
		"one row of a key":   {3, dataset.Staging{}, false},
		"each its own match": {rows, dataset.Staging{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := scenario.NewWorld()
			t.Cleanup(w.Release)
			at := func(day, hour int) string { return fmt.Sprintf("2026-10-%02dT%02d:00:00", 1+day, hour) }
			loadertest.Rows("ml.train", "key:long ts:timestamp", "day(ts) bucket(4,key)", rows, func(i int) string {
				return fmt.Sprint(i%c.keys, " ", at(i%days, 12))
			}).In(t, w)
			table := func(name string, lost int) dataset.Dataset {
				staged := c.keys
				if c.entry.PointInTime != nil || c.entry.Align != nil {
					staged *= days
				}
				loadertest.Rows("features."+name, "key:long ts:timestamp v:double", "day(ts) bucket(4,key)", staged, func(i int) string {
					key, day := i%c.keys, i/c.keys
					if key%3 == lost && (staged == c.keys || day == 2) {
						return fmt.Sprint(key, " ", at(day%days, 6), " -")
					}
					return fmt.Sprint(key, " ", at(day%days, 6), " ", key)
				}).In(t, w)
				e := c.entry
				e.Table, e.Name, e.Columns = "features."+name, "f", []dataset.Column{{Column: "v"}}
				return dataset.Dataset{Name: name, Key: []string{"key"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{e}}
			}
			o := options(w, table("usual", -1), table("bad", 1))
			got, err := entries.Compare(t.Context(), o, entries.Request{Dataset: "bad", Columns: []string{"v"}}, "usual")
			require.NoError(t, err)
			require.Zero(t, o.Budget.InUse())
			require.Equal(t, c.alarms, slices.ContainsFunc(got.Against.Alarms, func(a statistics.Alarm) bool { return a.Measure == drift.Nulls }), "%+v", got.Against.Alarms)
			require.InDelta(t, 1, got.Entries[0].Matches.MatchRate, 0)
		})
	}
}

// spec: stats-7
func TestLackOfMemory(t *testing.T) {
	c := loadertest.World(t)
	o := options(c.World, c.Dataset)
	held, err := o.Budget.Reserve("all", o.Budget.Limit()-1<<20)
	require.NoError(t, err)
	_, err = entries.Describe(t.Context(), o, entries.Request{Dataset: c.Dataset.Name})
	held.Release()
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
}

// A dataset is compared with another one: the entry that matches less is named, with the day.
//
// spec: stats-54
func TestDatasetsAreCompared(t *testing.T) {
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	const rows = 6000
	loadertest.Rows("ml.train", "id:long day:date", "day bucket(4,id)", rows, func(i int) string { return fmt.Sprintf("%d 2026-10-%02d", i, 1+i%6) }).In(t, w)
	table := func(name string, matches func(i int) bool) dataset.Dataset {
		loadertest.Rows("features."+name, "id:long v:double", "bucket(4,id)", rows, func(i int) string {
			if !matches(i) {
				return fmt.Sprint(1_000_000+i, " 1")
			}
			return fmt.Sprint(i, " ", i%10)
		}).In(t, w)
		return dataset.Dataset{Name: name, Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features." + name, Name: "f"}}}
	}
	usual := table("usual", func(i int) bool { return i%10 != 0 })
	bad := table("bad", func(i int) bool { return i%10 != 0 && (i%6 != 2 || i%5 == 0) })
	o := options(w, usual, bad)
	got, err := entries.Compare(t.Context(), o, entries.Request{Dataset: "bad"}, "usual")
	require.NoError(t, err)
	require.Zero(t, o.Budget.InUse())
	require.Equal(t, "usual", got.Against.Dataset)
	at := slices.IndexFunc(got.Against.Columns, func(s stats.Summary) bool { return s.Name == "v" })
	require.Equal(t, got.Entries[0].Columns[0].Histogram.Edges, got.Against.Columns[at].Histogram.Edges)
	found := map[string]bool{}
	for _, a := range got.Against.Alarms {
		require.Contains(t, []string{"", "2026-10-03"}, a.Partition)
		found[fmt.Sprint(a.Column, " ", a.Partition, " ", a.Measure)] = true
	}
	first := got.Against.Alarms[0]
	require.Equal(t, "f f match_rate", fmt.Sprint(first.Entry, " ", first.Column, " ", first.Measure), "the cause is first")
	for _, a := range got.Against.Shown() {
		require.NotEqual(t, drift.Nulls, a.Measure, "%+v", a)
		if a.Measure == drift.MatchRate {
			require.Contains(t, a.Text, "; also nulls of v, since rows without a match have nulls")
		}
	}
	require.True(t, found["f 2026-10-03 match_rate"], "%v", found)
	require.True(t, found["v 2026-10-03 nulls"], "%v", found)
	same, err := entries.Compare(t.Context(), o, entries.Request{Dataset: "bad"}, "bad")
	require.NoError(t, err)
	require.Empty(t, same.Against.Alarms)
	_, err = entries.Compare(t.Context(), o, entries.Request{Dataset: "bad"}, "usuall")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// The ages of a base are counted in the bins of the dataset's ages.
//
// spec: stats-48
func TestAgesAreCompared(t *testing.T) {
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	const rows = 2000
	loadertest.Rows("ml.train", "id:long t:long", "bucket(4,id)", rows, func(i int) string { return fmt.Sprint(i, " ", 1000+i) }).In(t, w)
	aged := func(name string, oldest int) dataset.Dataset {
		loadertest.Rows("features."+name, "id:long t:long v:long", "bucket(4,id)", rows, func(i int) string { return fmt.Sprint(i, " ", 1000+i-i%oldest, " 1") }).In(t, w)
		return dataset.Dataset{Name: name, Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{
			Table: "features." + name, Name: "f", Columns: []dataset.Column{{Column: "v"}}, PointInTime: &dataset.PointInTime{Training: "t", Staging: "t", Tolerance: dataset.Lag{Count: 1000}, Exact: true},
		}}}
	}
	got, err := entries.Compare(t.Context(), options(w, aged("fresh", 10), aged("stale", 300)), entries.Request{Dataset: "fresh"}, "stale")
	require.NoError(t, err)
	at := slices.IndexFunc(got.Against.Columns, func(s stats.Summary) bool { return s.Name == "f.age" })
	require.GreaterOrEqual(t, at, 0)
	age, base := got.Entries[0].Age, got.Against.Columns[at]
	require.Equal(t, []string{"9", "299"}, []string{age.Max.String(), base.Max.String()})
	require.Equal(t, age.Histogram.Edges, base.Histogram.Edges)
	require.Positive(t, base.Histogram.Above)
}

// An entry whose times are local times has an alarm that says so, its ages have a unit that fits, and a column that predicts the label much
// better than in the base is found. With named columns, only their entries are in the result.
//
// spec: stats-31, stats-32, stats-55, stats-62
func TestShiftedTimesAndBetterColumns(t *testing.T) {
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	const rows = 6000
	at := func(i int) time.Time {
		return time.Date(2026, 10, 2+i%6, 8, 0, 0, 0, time.UTC).Add(time.Duration(i*37%14_000) * time.Second)
	}
	clicked := func(i int) int { return i / 10 * 7 % 10 / 9 }
	format := func(at time.Time) string { return at.Format("2006-01-02T15:04:05") }
	loadertest.Rows("ml.train", "id:long ts:timestamp click:int", "day(ts) bucket(4,id)", rows, func(i int) string {
		return fmt.Sprint(i, " ", format(at(i)), " ", clicked(i))
	}).In(t, w)
	loadertest.Rows("features.other", "id:long o:double", "bucket(4,id)", rows, func(i int) string { return fmt.Sprint(i, " ", i%3) }).In(t, w)
	make := func(name string, hours, told int) dataset.Dataset {
		loadertest.Rows("features."+name, "id:long ended:timestamp v:double", "bucket(4,id)", rows, func(i int) string {
			return fmt.Sprint(i, " ", format(at(i).Add(time.Duration(hours)*time.Hour-10*time.Minute)), " ", i%10+told*clicked(i))
		}).In(t, w)
		return dataset.Dataset{Name: name, Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{
			{Table: "features." + name, Name: "f", Columns: []dataset.Column{{Column: "v"}}, PointInTime: &dataset.PointInTime{Training: "ts", Staging: "ended", Tolerance: dataset.Lag{Time: 24 * time.Hour}}},
			{Table: "features.other"},
		}}
	}
	o := options(w, make("usual", 0, 0), make("shifted", -5, 6))
	got, err := entries.Compare(t.Context(), o, entries.Request{Dataset: "shifted", Columns: []string{"v"}, Label: "click"}, "usual")
	require.NoError(t, err)
	require.Zero(t, o.Budget.InUse())
	require.Len(t, got.Entries, 1)
	require.Empty(t, slices.Concat(got.Against.Added, got.Against.Removed))
	texts := map[string]string{}
	for _, a := range got.Against.Alarms {
		require.NotEqual(t, "o", a.Column)
		if a.Partition == "" {
			texts[a.Column+" "+string(a.Measure)] = a.Text
		}
	}
	require.Equal(t, "the times of rows that match are about 5 h earlier, as if a local time had been written as UTC; the statistics of the table show the exact shift (limit 20 min); in all 6 partitions", texts["f.time shift"])
	require.Contains(t, texts["f.age unit"], "the median size is 5.17 h, and was 10 min: 31 times as large")
	require.Len(t, got.Label.Alarms(), 1)
	risen := got.Label.Alarms()[0]
	require.Equal(t, "v true false", fmt.Sprint(risen.Column, " ", risen.Risen, " ", risen.Leak))
	require.Less(t, *risen.Base+0.2, risen.Value)

	same, err := entries.Compare(t.Context(), o, entries.Request{Dataset: "shifted", Label: "click"}, "shifted")
	require.NoError(t, err)
	require.Empty(t, same.Against.Alarms)
	require.Empty(t, same.Label.Alarms())
}
