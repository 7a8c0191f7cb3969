package resolve_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// TestOnlyTextsAreCategories checks the type of a category, which other columns and datasets are refused
// by name.
//
// spec: wire-48, wire-50
func TestOnlyTextsAreCategories(t *testing.T) {
	t.Parallel()
	r, err := bind(t, entry())
	require.NoError(t, err)
	outputs, err := r.Select([]dataset.Column{{Column: "late", Name: "l", As: dataset.Category}, {Column: "late"}})
	require.NoError(t, err)
	require.Equal(t, "l: type=dictionary<values=utf8, indices=int32, ordered=false>, nullable", resolve.Schema(outputs).Field(0).String())
	require.Equal(t, arrow.BinaryTypes.String, outputs[0].Type(), "the type of the values")
	require.Equal(t, arrow.BinaryTypes.String, resolve.Schema(outputs).Field(1).Type)

	for _, c := range []dataset.Column{{Column: "age", As: dataset.Category}, {Column: "late", First: 2, As: dataset.Category}} {
		_, err = r.Select([]dataset.Column{{Column: "item"}, c})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Equal(t, "columns[1]", fault.As(err).Faults[0].Field)
		require.ErrorContains(t, err, `column "`+c.Column+`" is `)
		require.ErrorContains(t, err, "only texts have categories, and they have neither first nor last; omit as: category")
	}
	binary, err := resolve.Bind(dataset.Dataset{Name: "d", Training: dataset.Training{Table: "ml.b"}},
		table("ml.b", []catalog.Field{field(1, "b", arrow.BinaryTypes.Binary, false)}), nil)
	require.NoError(t, err)
	_, err = binary.Select([]dataset.Column{{Column: "b", As: dataset.Category}})
	require.ErrorContains(t, err, `column "b" is binary: only texts have categories`)
	_, err = r.Choose(dataset.Selection{Dense: []dataset.Dense{{Name: "x", Columns: []dataset.Column{{Column: "late", As: dataset.Category}}}}})
	require.ErrorContains(t, err, `column "late" is utf8: dense packs`)

	of := entry()
	of.Columns = []dataset.Column{{Column: "late", As: dataset.Category}}
	_, err = bind(t, of)
	require.ErrorContains(t, err, "category belongs to a query, not to a dataset; write it in the query's columns")
}

// TestGroupedBatchesHaveNoCategories checks that a query for a row for each request is refused.
//
// spec: wire-51
func TestGroupedBatchesHaveNoCategories(t *testing.T) {
	t.Parallel()
	r, err := bind(t, entry())
	require.NoError(t, err)
	outputs, err := r.Select([]dataset.Column{{Column: "item"}, {Column: "late", As: dataset.Category}})
	require.NoError(t, err)
	for _, wire := range []dataset.Wire{dataset.WireGrouped, dataset.WireIndexed} {
		_, err = r.Schema(outputs, wire)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, string(wire)+` does not send column "late" once in each row`)
		require.Equal(t, "omit as: category, or use wire: plain or auto", fault.As(err).Remedy)
	}
	for _, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireAuto} {
		schema, err := r.Schema(outputs, wire)
		require.NoError(t, err)
		require.Equal(t, arrow.DICTIONARY, schema.Field(1).Type.ID())
	}

	// A table that auto does not index has no indexed column whose name could be taken.
	of := entry()
	of.Name = "item"
	r, err = bind(t, of)
	require.NoError(t, err)
	_, err = r.Schema(outputs, dataset.WireAuto)
	require.NoError(t, err)
	outputs[1].Category = false
	_, err = r.Schema(outputs, dataset.WireAuto)
	require.ErrorContains(t, err, "another column has that name")
}
