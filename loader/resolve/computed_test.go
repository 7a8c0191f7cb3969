package resolve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
)

// computedOf binds a dataset with computed columns: pairs of a name and an expression.
func computedOf(t *testing.T, pairs ...string) (*resolve.Relation, error) {
	t.Helper()
	d := named("d", dataset.Staging{MatchedAs: "known", Prefix: "u_"})
	for i := 0; i < len(pairs); i += 2 {
		d.Computed = append(d.Computed, dataset.Computed{Column: pairs[i], Expr: pairs[i+1]})
	}
	return resolve.Bind(d.Defaults(), clicks(), []*catalog.Table{users()})
}

func namesOf(outputs []resolve.Output) []string {
	var names []string
	for _, o := range outputs {
		names = append(names, o.Name)
	}
	return names
}

// TestComputedColumnsFollowTheirTable checks the order of outputs, and the columns of tables of
// which each computed column is made.
//
// spec: computed-2, computed-6
func TestComputedColumnsFollowTheirTable(t *testing.T) {
	t.Parallel()
	r, err := computedOf(t, "where", "coalesce(u_mail, u_city)", "both", "coalesce(city, where)", "next", "item + 1", "seen", "known", "row", "_row_id + item")
	require.NoError(t, err)
	require.Equal(t, []string{"user", "item", "city", "both", "next", "row", "u_mail", "u_city", "known", "where", "seen"}, namesOf(r.Outputs))
	both := r.Outputs[3]
	require.Equal(t, []string{"city", "u_mail", "u_city"}, namesOf(both.Parts))
	require.Equal(t, []string{"city", "u_mail", "u_city"}, namesOf(resolve.Leaves(r.Outputs[3:4])))
	require.True(t, resolve.Asks(r.Outputs[3:4], 0))
	require.False(t, resolve.Asks(r.Outputs[4:6], 0))
	require.Equal(t, "int64", r.Outputs[4].Type().String())
}

// TestWrongComputedColumns lists all faults of computed columns together.
//
// spec: computed-4, computed-5
func TestWrongComputedColumns(t *testing.T) {
	t.Parallel()
	_, err := computedOf(t, "a", "itme + 1", "city", "item + 1", "b", "later + 1", "later", "item + 1", "c", "city + 1")
	faults := fault.As(err).Faults
	require.Len(t, faults, 4)
	require.Equal(t, fault.Field{Field: "computed[0].expr", Position: 1, Nearest: "item", Message: `unknown column "itme"`}, faults[0])
	require.Equal(t, fault.Field{Field: "computed[1].column", Message: `"city" is the name of a column of the training table ml.clicks; choose another`}, faults[1])
	require.Equal(t, "computed[2].expr", faults[2].Field)
	require.Equal(t, `unknown column "later"`, faults[2].Message)
	require.Equal(t, "computed[4].expr", faults[3].Field)
}

// TestQueriesComputeColumns checks the computed columns of a query.
//
// spec: computed-3, computed-4, computed-5, computed-10
func TestQueriesComputeColumns(t *testing.T) {
	t.Parallel()
	r, err := computedOf(t, "next", "item + 1", "town", "u_city")
	require.NoError(t, err)
	choose := func(columns ...dataset.Column) ([]resolve.Output, error) {
		return r.Choose(dataset.Selection{Columns: columns, Dense: []dataset.Dense{{Name: "x", Columns: []dataset.Column{{Column: "next"}, {Column: "q", Expr: "item - next"}}}}})
	}
	outputs, err := choose(dataset.Column{Column: "town", As: dataset.Category}, dataset.Column{Column: "after", Expr: "next + 1", As: "double"}, dataset.Column{Column: "where", Expr: "coalesce(u_city, town)"})
	require.NoError(t, err)
	require.Equal(t, []string{"after", "x", "town", "where"}, namesOf(outputs))
	require.Equal(t, "float64", outputs[0].Type().String())
	require.Equal(t, []string{"item"}, namesOf(outputs[0].Parts))
	require.Equal(t, []string{"item", "item"}, namesOf(resolve.Leaves(outputs[1:2])))
	_, err = choose(dataset.Column{Column: "city", Expr: "item + 1"}, dataset.Column{Column: "a", Expr: "nxt + 1"}, dataset.Column{Column: "b", Expr: "a + mail"})
	require.Equal(t, []fault.Field{
		{Field: "columns[0]", Message: `the dataset has a column "city"; give the computed column another name`},
		{Field: "columns[1].expr", Position: 1, Nearest: "next", Message: `unknown column "nxt"`},
		{Field: "columns[2].expr", Position: 1, Message: `unknown column "a"`},
		{Field: "columns[2].expr", Position: 5, Nearest: "u_mail", Message: `unknown column "mail"; users has one that it does not offer under this name: see the entry's columns and prefix`},
	}, fault.As(err).Faults)
}

// TestWithheldColumnsAreNotComputed checks that clients do not get values that are made of columns
// that they may not read.
//
// spec: computed-14
func TestWithheldColumnsAreNotComputed(t *testing.T) {
	t.Parallel()
	d := named("d", dataset.Staging{Prefix: "u_"})
	d.Computed = []dataset.Computed{{Column: "of_mail", Expr: "coalesce(city, u_mail)"}, {Column: "again", Expr: "of_mail"}, {Column: "of_city", Expr: "coalesce(city, u_city)"}}
	rights := limited(policy.TableLimits{Name: "ml.users", Withheld: []string{"mail"}})
	require.Equal(t, []string{"user", "item", "city", "of_city", "u_city"}, outputs(t, d.Defaults(), rights))
	r, err := resolve.BindFor(d.Defaults(), clicks(), []*catalog.Table{users()}, rights)
	require.NoError(t, err)
	_, err = r.Select([]dataset.Column{{Column: "x", Expr: "coalesce(city, u_mail)"}})
	require.ErrorContains(t, err, `unknown column "u_mail"`)
	_, err = r.Select([]dataset.Column{{Column: "again"}})
	require.ErrorContains(t, err, `the dataset has no column "again"`)
	d.Name = "" // a client sent it
	_, err = resolve.BindFor(d.Defaults(), clicks(), []*catalog.Table{users()}, rights)
	require.ErrorContains(t, err, `unknown column "u_mail"`)
}
