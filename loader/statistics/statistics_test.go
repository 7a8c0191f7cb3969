package statistics_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage/stagetest"
	"github.com/penstock/penstock/loader/statistics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// describe describes the table of a rig.
func describe(t *testing.T, r *stagetest.Rig, request statistics.Request) (*statistics.Result, error) {
	t.Helper()
	held, err := r.Budget.Reserve("history", 0)
	require.NoError(t, err)
	defer held.Release()
	request.History, err = r.Tables.History(t.Context(), stagetest.History, held)
	require.NoError(t, err)
	used := r.Budget.InUse()
	out, err := statistics.New(statistics.Options{
		Tables: &r.Tables, Read: r.Tables.Read(r.Budget), Budget: r.Budget, Cores: cores.New(3),
	}).Describe(t.Context(), request)
	require.Equal(t, used, r.Budget.InUse(), "nothing stays reserved")
	return out, err
}

// column returns a summary.
func column(t *testing.T, r *statistics.Result, name string) stats.Summary {
	t.Helper()
	for _, s := range r.Columns {
		if s.Name == name {
			return s
		}
	}
	require.Fail(t, "no such column", name)
	return stats.Summary{}
}

// A snapshot's own rows count, without rows of later snapshots.
//
// spec: stats-1, stats-5, stats-6
func TestASnapshotIsDescribed(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	empty, err := describe(t, r, statistics.Request{})
	require.NoError(t, err)
	require.Zero(t, empty.Rows+empty.Snapshot)
	require.Nil(t, column(t, empty, "id").Min)
	first := r.Stage(t, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}}, stagetest.Schema(), `[
		{"id": 1, "day": "2026-10-01", "items": [1, 2], "country": "CH"},
		{"id": 2, "day": "2026-10-01", "items": [3, null], "country": "DE"},
		{"id": 3, "day": "2026-10-02", "items": null, "country": null},
		{"id": 4, "day": "2026-10-02", "items": [], "country": "CH"}]`)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}}, stagetest.Schema(), `[{"id": 9, "day": "2026-10-02"}]`)
	got, err := describe(t, r, statistics.Request{At: strconv.FormatInt(first.Snapshot, 10)})
	require.NoError(t, err)
	require.Equal(t, []int64{first.Snapshot, 4, 4}, []int64{got.Snapshot, got.Rows, got.Sample.Rows})
	require.False(t, got.Time.IsZero())
	require.Zero(t, got.Sample.QuantileError)
	id, country, day := column(t, got, "id"), column(t, got, "country"), column(t, got, "day")
	require.Equal(t, []string{"1", "4", "2.5"}, []string{id.Min.String(), id.Max.String(), id.Mean.String()})
	require.Equal(t, []string{"2026-10-01", "2026-10-02"}, []string{day.Min.String(), day.Max.String()})
	require.Equal(t, []int64{1, 2}, []int64{country.Nulls, *country.Distinct})
	require.Equal(t, stats.Top{Value: country.Top[0].Value, Count: 2, Share: 2. / 3}, country.Top[0])
	require.Equal(t, "CH", country.Top[0].Value.String())
	elements := column(t, got, "items.elements")
	require.Equal(t, []int64{4, 1, 3}, []int64{elements.Rows, elements.Nulls, elements.Values})
	require.EqualValues(t, 1, *column(t, got, "items.lengths").Zeros)
	later, err := describe(t, r, statistics.Request{Columns: []string{"id"}, At: "main"})
	require.NoError(t, err)
	require.Len(t, later.Columns, 1)
	require.EqualValues(t, 5, later.Rows)
	hidden, err := describe(t, r, statistics.Request{NoValues: true})
	require.NoError(t, err)
	text, err := json.Marshal(hidden)
	require.NoError(t, err)
	for _, secret := range []string{"CH", "DE"} {
		require.NotContains(t, string(text), secret)
	}
	for _, wrong := range []statistics.Request{{At: "mian"}, {Columns: []string{"idd"}}} {
		_, err = describe(t, r, wrong)
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
	}
}

// Files are described in any order, and the sample of a table is a part of the rows.
//
// spec: stats-3, stats-4
func TestLargeTablesAreSampled(t *testing.T) {
	const rows = 150_000
	r := stagetest.New(t, stagetest.Unlimited, nil)
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, `,{"id": %d, "day": "2026-10-01", "country": "CH"}`, i)
	}
	request := stagetest.Create()
	r.Stage(t, request, stagetest.Schema(), "["+text.String()[1:]+"]")
	one, err := describe(t, r, statistics.Request{Columns: []string{"id"}})
	require.NoError(t, err)
	two, err := describe(t, r, statistics.Request{Columns: []string{"id"}})
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.Greater(t, *one.Files, 1)
	require.InDelta(t, rows/4, one.Sample.Rows, 1000)
	require.InDelta(t, 0.25, one.Sample.Rate, 0)
	id := column(t, one, "id")
	require.Equal(t, []string{"0", "149999", "74999.5"}, []string{id.Min.String(), id.Max.String(), id.Mean.String()})
	require.InEpsilon(t, rows, *id.Distinct, 4*stats.DistinctError)
	exact, err := describe(t, r, statistics.Request{Columns: []string{"id"}, Exact: true})
	require.NoError(t, err)
	require.Equal(t, "74999", column(t, exact, "id").Quantiles[3].String())
	require.Zero(t, exact.Sample.QuantileError)
}

// spec: stats-7
func TestLackOfMemoryAndFailures(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	_, err := describe(t, r.Broken(t, errstore.Rule{Location: ".parquet", Call: errstore.Open, Action: errstore.Fail(nil)}), statistics.Request{})
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	held, err := r.Budget.Reserve("all", r.Budget.Limit()-1<<20)
	require.NoError(t, err)
	_, err = describe(t, r, statistics.Request{})
	held.Release()
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
}
