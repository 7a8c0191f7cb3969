package stage_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// New tables have the partition fields of the request before their buckets. Their days can be
// replaced.
//
// spec: stage-51, stage-59
func TestPartitionsOfNewTables(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	request := stagetest.Create()
	request.Mode = dataset.WriteReplace
	request.Partition = []string{"month(day)", "truncate[1](country)"}
	out := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.True(t, out.Created)
	require.Equal(t, []string{"month(day)", "truncate[1](country)", "bucket[4](id)"}, out.Partition)
	require.Empty(t, out.Taken)
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	var names []string
	var kinds []catalog.Transform
	for _, p := range state.Table.Specs[state.Spec] {
		names, kinds = append(names, p.Name), append(kinds, p.Transform)
	}
	require.Equal(t, []string{"day_month", "country_trunc", "id_bucket"}, names)
	require.Equal(t, []catalog.Transform{{Kind: catalog.Month}, {Kind: catalog.Truncate, N: 1}, {Kind: catalog.Bucket, N: 4}}, kinds)
	for _, f := range r.Listed(t, "") {
		require.Regexp(t, "/data/day_month=2026-10/country_trunc=(C|D|F|null)/id_bucket=", f.Location)
	}

	out = r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}, stagetest.Schema(), `[
		{"id": 8, "day": "2026-10-31", "items": [], "country": "CH"}, {"id": 9, "day": "2026-11-01", "items": [], "country": "CH"}]`)
	require.Equal(t, 4, out.Removed)
	require.EqualValues(t, 4, out.RemovedRows)
	require.ElementsMatch(t, []string{"8", "9"}, r.Column(t, "", "id"))
}

// A partition field does not get the name of a column.
//
// spec: stage-51
func TestPartitionNamesDifferFromColumns(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	long := arrow.PrimitiveTypes.Int64
	of := arrow.NewSchema([]arrow.Field{{Name: "id", Type: long}, {Name: "id_bucket", Type: long}}, nil)
	request := stagetest.Create()
	request.Partition = []string{"identity(id_bucket)"}
	out := r.Stage(t, request, of, `[{"id": 1, "id_bucket": 2}]`)
	require.Equal(t, []string{"id_bucket", "bucket[4](id)"}, out.Partition)
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	require.Equal(t, "id_bucket_partition", state.Table.Specs[state.Spec][1].Name)
}

// Invalid partition fields are refused before a row is read.
//
// spec: stage-51
func TestPartitionsThatCannotBe(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	for text, fields := range map[string][]string{
		`there is no column "dey"`:              {"day(dey)"},
		"unknown transform week":                {"week(day)"},
		`"other(day)" has an unknown transform`: {"other(day)"},
		"needs a width above 0":                 {"truncate(country)"},
		"which is given by itself":              {"bucket[4](day)"},
		"has no width":                          {"day[2](day)"},
		"two fields are of column day":          {"day(day)", "month(day)"},
		`of type date has no transform "hour"`:  {"hour(day)"},
		`has no transform "truncate[3]"`:        {"truncate[3](day)"},
		"only buckets":                          {"truncate[3](country)"},
	} {
		request := stagetest.Create()
		request.Partition = fields
		if text == "only buckets" {
			request.Mode = dataset.WriteReplace
		}
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, stagetest.Schema()))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, text)
	}
	_, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// A new table gets the partition fields of the table in Like whose columns the rows have.
//
// spec: stage-52
func TestNewTablesArePartitionedLikeOthers(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: "ml.impressions",
		Columns: []commit.NewColumn{
			{ID: 1, Name: "id", Type: "long"},
			{ID: 2, Name: "day", Type: "date"},
			{ID: 3, Name: "surface", Type: "string"},
			{ID: 4, Name: "country", Type: "long"},
		},
		Partition: []commit.PartitionBy{
			{Column: 3, Name: "surface", Transform: "identity"},
			{Column: 2, Name: "d", Transform: "day"},
			{Column: 4, Name: "country", Transform: "identity"},
			{Column: 1, Name: "same", Transform: "identity"},
			{Column: 1, Name: "b", Transform: "bucket[7]"},
		},
	}))
	request := stagetest.Create()
	request.Buckets, request.Like = 0, "ml.impressions"
	request.DryRun = true
	out := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.Equal(t, []string{"day(day)"}, out.Taken)
	require.Equal(t, []string{"day(day)", "bucket[7](id)"}, out.Partition)
	request.Partition = []string{"country"}
	out = r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.Empty(t, out.Taken)
	require.Equal(t, []string{"country", "bucket[7](id)"}, out.Partition)
}
