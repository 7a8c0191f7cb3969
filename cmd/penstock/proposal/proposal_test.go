package proposal

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
)

// listed is a catalog with a fixed list of tables.
type listed struct {
	catalog.Catalog
	names []string
}

func (l listed) List(context.Context) ([]string, error) { return l.names, nil }

// plans is a Planner that accepts every query.
type plans struct{}

func (plans) Plan(context.Context, dataset.Query) (loader.Planned, error) {
	return loader.Planned{}, nil
}

// A table without snapshots, such as one left by an interrupted first stage, is not proposed. The
// config file lists it as empty.
func TestEmptyTablesAreLeftOut(t *testing.T) {
	t.Parallel()
	m := catalogtest.NewMemory()
	fields := []catalog.Field{{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64}}
	for _, name := range []string{"ml.clicks", "ml.interrupted"} {
		require.NoError(t, m.AddTable(name, fields, map[int]catalog.Spec{0: {}}))
	}
	_, err := m.Append("ml.clicks", catalog.File{Location: "/clicks/1.parquet", Rows: 3, Bytes: 100})
	require.NoError(t, err)
	got, err := Survey(t.Context(), listed{Catalog: m, names: []string{"ml.clicks", "ml.interrupted"}}, plans{})
	require.NoError(t, err)
	require.Len(t, got.Datasets, 1)
	require.Equal(t, "ml.clicks", got.Datasets[0].Training.Table)
	require.Equal(t, []string{"ml.interrupted: it is empty"}, got.LeftOut())
	require.Contains(t, got.Config(nil), "ml.interrupted: it is empty")
}
