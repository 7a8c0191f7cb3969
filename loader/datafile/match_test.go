package datafile_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/datafile"
)

// Columns are matched by name and widened; those that do not fit are all in one error, also those that could be added.
func TestColumnsAreMatched(t *testing.T) {
	t.Parallel()
	of := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String},
	}, nil)
	state, columns, err := datafile.NewTable("ml.t", 2, of)
	require.NoError(t, err)
	require.Len(t, columns, 2)
	require.Equal(t, 2, state.LastColumn)
	state.Table.SortOrders[1], state.SortOrder = catalog.SortOrder{{Source: 1, Transform: catalog.Transform{Kind: catalog.Identity}}}, 1

	narrow := arrow.NewSchema([]arrow.Field{{Name: "more", Type: arrow.PrimitiveTypes.Int64}, {Name: "id", Type: arrow.PrimitiveTypes.Int32}}, nil)
	_, err = datafile.Match(narrow, state, datafile.MatchOptions{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, `no column "more"`)
	target, err := datafile.Match(narrow, state, datafile.MatchOptions{Key: []string{"id"}, Evolve: true})
	require.NoError(t, err)
	require.Equal(t, []int{0}, target.Layout.Key)
	require.Equal(t, 1, target.FieldID(0))
	require.Equal(t, arrow.PrimitiveTypes.Int64, target.Fitted.Field(0).Type)
	require.Equal(t, 3, target.Added[0].ID)
	require.Equal(t, 1, target.SortOrder)
	require.Equal(t, 1, target.AsWritten(1).SortOrder)
	require.Zero(t, target.AsWritten(0).SortOrder, "rows of a file that was not sorted")
	require.Empty(t, target.AsWritten(1).Layout.Sort)

	wrong := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "text", Type: arrow.PrimitiveTypes.Int64}}, nil)
	_, err = datafile.Match(wrong, state, datafile.MatchOptions{})
	require.ErrorContains(t, err, `column "id"`)
	require.ErrorContains(t, err, `column "text"`)
}
