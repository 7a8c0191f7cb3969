package resolve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
)

// fittedDataset returns a dataset with a fitted list, and a computed column that uses it.
func fittedDataset(list dataset.Fitted) dataset.Dataset {
	d := named("d", dataset.Staging{Prefix: "u_"})
	d.Fitted = []dataset.Fitted{list}
	d.Computed = []dataset.Computed{{Column: "bucket", Expr: "bucketize(item, bounds)"}}
	return d.Defaults()
}

// spec: fitted-1
func TestExpressionsNameFittedLists(t *testing.T) {
	t.Parallel()
	r, err := resolve.Bind(fittedDataset(datasettest.Fitted("bounds", 1, 5)), clicks(), []*catalog.Table{users()})
	require.NoError(t, err)
	outputs, err := r.Choose(dataset.Selection{
		Columns: []dataset.Column{{Column: "bucket"}, {Column: "own", Expr: "bucketize(item + 1, bounds) + bucket"}},
		Dense:   []dataset.Dense{{Name: "x", Columns: []dataset.Column{{Column: "y", Expr: "lookup(item, bounds, -1)"}}}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"bucket", "own", "x"}, namesOf(outputs))
	require.Equal(t, []string{"item"}, namesOf(outputs[0].Parts))
	require.Regexp(t, `^bucketize\(item \+ 1, FITTED 'sha256:\w{64}'\) \+ bucketize\(item, FITTED 'sha256:\w{64}'\)$`, outputs[1].Computed.Expr.String())
	_, err = r.Select([]dataset.Column{{Column: "own", Expr: "item + bounds"}})
	require.Equal(t, []fault.Field{{Field: "columns[0].expr", Position: 8, Message: "bounds is a fitted list, which only bucketize and lookup take"}}, fault.As(err).Faults)
}

// spec: fitted-11
func TestFittedListsWithTheNameOfAColumn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"item":   `"item" is the name of this list and of a column of the training table ml.clicks; give the list another name`,
		"u_mail": `"u_mail" is the name of this list and of a column of users; give the list another name`,
		"bucket": `"bucket" is the name of this list and of a column of the dataset's computed columns; give the list another name`,
	} {
		d := fittedDataset(datasettest.Fitted("bounds", 1, 5))
		d.Fitted = append(d.Fitted, datasettest.Fitted(name, 3))
		_, err := resolve.Bind(d, clicks(), []*catalog.Table{users()})
		require.Contains(t, fault.As(err).Faults, fault.Field{Field: "fitted." + name, Message: want})
	}
	list := datasettest.Fitted("bounds")
	list.List = nil
	_, err := resolve.Bind(fittedDataset(list), clicks(), []*catalog.Table{users()})
	require.ErrorContains(t, err, "fitted.bounds: the values of bounds were not read")
}

// spec: fitted-13
func TestFittedListsOfLimitedClients(t *testing.T) {
	t.Parallel()
	d := fittedDataset(datasettest.Fitted("bounds", 1, 5))
	for _, limits := range []policy.TableLimits{{Name: "ml.users", Withheld: []string{"mail"}}, {Name: "ml.clicks", Filter: datasettest.Filter("item > 3")}} {
		r, err := resolve.BindFor(d, clicks(), []*catalog.Table{users()}, limited(limits))
		require.NoError(t, err)
		outputs, err := r.Select([]dataset.Column{{Column: "bucket"}})
		require.NoError(t, err)
		_, err = r.Select([]dataset.Column{{Column: "own", Expr: "bucketize(item, bounds)"}})
		require.ErrorContains(t, err, `unknown column "bounds"`)
		resumed, err := r.WithLists(datasettest.Filter(outputs[0].Computed.Expr.String() + " > 1"))
		require.NoError(t, err)
		_, err = resolve.BindConjuncts(resumed, resolve.Schema(r.Outputs), "filter")
		require.NoError(t, err, "a cursor's filter")
	}
}
