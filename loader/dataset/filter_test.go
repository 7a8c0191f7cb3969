package dataset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

func TestFiltersKeepTheirText(t *testing.T) {
	t.Parallel()
	f, err := dataset.ParseFilter("a<1  and b IN (2)")
	require.NoError(t, err)
	require.False(t, f.IsZero())
	require.Equal(t, "a<1  and b IN (2)", f.String())
	require.Equal(t, "a < 1 AND b IN (2)", f.Expr().String())
	require.Equal(t, f, datasettest.Filter(f.String()))

	for _, text := range []string{"", " "} {
		f, err = dataset.ParseFilter(text)
		require.Equal(t, text == "", err == nil, "blanks are no filter")
		require.True(t, f.IsZero())
		require.Equal(t, dataset.Filter{}, f)
		require.Nil(t, f.Expr())
	}
}

func TestFaultyFiltersHavePositions(t *testing.T) {
	t.Parallel()
	_, err := dataset.ParseFilter("day = = 1")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, 7, fault.As(err).Faults[0].Position)
	require.Empty(t, fault.As(err).Faults[0].Field)
	require.Panics(t, func() { datasettest.Filter("day = = 1") })
}
