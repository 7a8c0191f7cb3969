package promote_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/promote"
)

// Datasets are checked before the first file is written, with the schema that the table will have, and again before the last
// commit, since datasets may be added meanwhile.
//
// spec: promote-64
func TestReadersAreCheckedBeforeEachCommit(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	checks := 0
	r.options.Effects = func(_ context.Context, change loader.SchemaChange, shown func(string) bool) ([]loader.SchemaEffect, error) {
		checks++
		require.Equal(t, rowsTable, change.Table)
		_, before := change.From.Field("f")
		f, after := change.To.Field("f")
		require.False(t, before)
		require.True(t, after)
		require.Equal(t, "history", change.To.Origins[f.ID].Entry)
		require.True(t, shown("any"))
		if checks == 1 {
			return nil, nil
		}
		return []loader.SchemaEffect{{Dataset: "late", Changed: []string{"f"}}}, nil
	}
	_, err := promote.New(r.options).Promote(t.Context(), request())
	require.Equal(t, fault.Conflict, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "column f of dataset late would have other values or another type after the promotion of column f of entry history")
	require.Equal(t, 2, checks)
	made, err := r.tables.Table(t.Context(), rowsTable, request().Dataset.Training.Ref)
	require.NoError(t, err)
	require.Equal(t, []string{"row", "key"}, made.Names())
	wanted := request()
	wanted.NoCheck = true
	_, err = promote.New(r.options).Promote(t.Context(), wanted)
	require.NoError(t, err)
	require.Equal(t, 2, checks)
	require.Equal(t, want(), r.read(t, "row", "f"))
}

// Errors do not name a dataset that the caller may not read, and do not say why it could not be read.
//
// spec: promote-64, promote-65, promote-66
func TestReadersThatMayNotBeNamed(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	_, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	for want, effect := range map[string]loader.SchemaEffect{
		"a dataset of the server could not be read after column f is taken back":                                   {Broken: fault.New(fault.Invalid, "secret")},
		"column g of a dataset of the server would have other values or another type after column f is taken back": {Changed: []string{"g"}},
		"": {Lost: []string{"f"}},
	} {
		r.options.Effects = func(_ context.Context, change loader.SchemaChange, _ func(string) bool) ([]loader.SchemaEffect, error) {
			_, after := change.To.Field("f")
			require.False(t, after)
			return []loader.SchemaEffect{effect}, nil
		}
		got, err := promote.New(r.options).Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}, DryRun: true})
		if want == "" {
			require.NoError(t, err)
			require.Empty(t, got.Losing)
			continue
		}
		require.Equal(t, fault.Conflict, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	r.options.Effects = func(context.Context, loader.SchemaChange, func(string) bool) ([]loader.SchemaEffect, error) {
		return []loader.SchemaEffect{{Dataset: "plain", Lost: []string{"f"}}}, nil
	}
	got, err := promote.New(r.options).Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"plain": {"f"}}, got.Losing)
	require.Equal(t, []string{"f"}, got.Dropped)
}
