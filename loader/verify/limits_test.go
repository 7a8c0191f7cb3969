package verify_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// newLimits returns a world whose dataset has limits for both tables.
func newLimits(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.table("ml.train", "id:long", "")
	w.table("f.a", "id:long price:long", "")
	w.table("f.b", "id:long", "")
	w.add("ml.train", 0, "1", "2")
	w.add("f.a", 0, "1 10", "2 20")
	w.add("f.b", 0, "1", "2")
	w.dataset(`
training: {table: ml.train, limits: {columns: {id: {min: 0}}}}
key: [id]
staging:
- {table: f.a, name: history, limits: {against: trained, columns: {price: {max: 15}}}}
- {table: f.b}
`)
	return w
}

// Verify checks the limits of the tables that have some, at the snapshots of the plan.
//
// spec: stats-80, stats-87
func TestLimitsAreChecked(t *testing.T) {
	w := newLimits(t)
	asked := map[string]dataset.Limits{}
	value := 20.
	broken := drift.Change{Column: "price", Partition: "2026-10-07", Measure: drift.Max, Value: &value, Change: value, Limit: 15, Alarm: true, Bound: true}
	w.options.CheckLimits = func(_ context.Context, table string, snapshot int64, limits dataset.Limits) (*drift.Checked, error) {
		asked[table] = limits
		out := &drift.Checked{Table: table, Snapshot: snapshot, Columns: []string{limits.Columns[0].Column}, Broken: []drift.Change{}}
		if table == "f.a" {
			out.Broken = append(out.Broken, broken)
		}
		return out, nil
	}
	v := w.verify(dataset.Query{})
	require.Len(t, asked, 2, "tables without limits are not read")
	require.Equal(t, "trained", asked["f.a"].Against)
	require.False(t, v.Clean())
	require.Equal(t, []int64{v.Pin.Training.Snapshot, v.Pin.Staging["history"].Snapshot}, []int64{v.Tables[0].Limits.Snapshot, v.Tables[1].Limits.Snapshot})
	require.Nil(t, v.Tables[2].Limits)
	require.Contains(t, v.String(), "breaks a rule: 1 finding\n  limits, history\n    column price, partition 2026-10-07: the greatest number is 20 (limit 15)\n")
	require.Contains(t, v.String(), "  limits of 1 column: 1 broken\n")
	f := v.Findings[0]
	require.Equal(t, []any{"history", &broken}, []any{f.Table, f.Limit})
}

// A limit that cannot be checked is a finding or an error, but never kept.
//
// spec: stats-84, stats-88
func TestLimitsThatCannotBeChecked(t *testing.T) {
	for kind, grade := range map[fault.Kind]string{
		fault.NotFound: "rule", fault.Invalid: "rule", fault.Corrupt: "stream", fault.Forbidden: "note", fault.Exhausted: "", fault.Unavailable: "", fault.Expired: "",
	} {
		w := newLimits(t)
		w.options.CheckLimits = func(context.Context, string, int64, dataset.Limits) (*drift.Checked, error) {
			return nil, fault.New(kind, "no column prize")
		}
		v, err := loader.New(w.options).Verify(t.Context(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}}}, nil)
		if grade == "" {
			require.Equal(t, kind, fault.KindOf(err), "%v", err)
			continue
		}
		require.NoError(t, err)
		require.Len(t, v.Findings, 2)
		for _, f := range v.Findings {
			require.Equal(t, grade, string(f.Grade))
			require.Contains(t, f.Message, "no column prize")
		}
	}
	w := newLimits(t)
	_, err := loader.New(w.options).Verify(t.Context(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}}}, nil)
	require.ErrorContains(t, err, "this program does not check limits of values")
}

// The limits of a table are not checked for a client from which some of the table is withheld.
//
// spec: stats-88
func TestLimitsOfWithheldTables(t *testing.T) {
	w := newLimits(t)
	var asked []string
	w.options.CheckLimits = func(_ context.Context, table string, _ int64, _ dataset.Limits) (*drift.Checked, error) {
		asked = append(asked, table)
		return &drift.Checked{Broken: []drift.Change{}}, nil
	}
	rules := policy.Policy{Rules: []policy.AccessRule{{
		Subjects: []string{"*"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Verify}, Tables: []policy.TableLimits{{Name: "f.a", Withheld: []string{"price"}}},
	}}}
	rights, ok := rules.Read(identity.Caller{Subject: "x"}, "d")
	require.True(t, ok)
	v, err := loader.New(w.options).Verify(t.Context(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}}, Rights: rights}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"ml.train"}, asked)
	require.True(t, v.Clean())
	require.Contains(t, v.String(), "the limits of values are not checked: columns or rows of table f.a are withheld from you")
}
