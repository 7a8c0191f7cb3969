package resolve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// TestLineage: both tables' row ids are returned only if they are named.
//
// spec: resolve-78, resolve-79
func TestLineage(t *testing.T) {
	t.Parallel()
	for _, has := range []bool{true, false} {
		e := entry()
		training, staging := trainingTable(4), stagingTable(spec(1, 4))
		if has {
			training.Lineage, staging.Lineage = catalog.LineageFields(), catalog.LineageFields()
		}
		d := dataset.Dataset{Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{e}}
		r, err := resolve.Bind(d, training, []*catalog.Table{staging})
		require.NoError(t, err)
		all, err := r.Select(nil)
		require.NoError(t, err)
		for _, o := range all {
			require.False(t, catalog.IsLineage(o.Field.ID), o.Name)
		}
		d.Staging[0].Columns = []dataset.Column{{Column: "_row_id", Name: "feature_row"}}
		of, staged := resolve.Bind(d, training, []*catalog.Table{staging})
		columns := []dataset.Column{{Column: "_last_updated_sequence_number"}, {Column: "item"}, {Column: "_row_id", Name: "row"}}
		if !has {
			require.ErrorContains(t, staged, `table features.user has no column "_row_id": rows have ids since format version 3`)
			_, err = r.Select(columns)
			require.ErrorContains(t, err, `table ml.train has no column "_row_id": rows have ids since format version 3; upgrade the table to it`)
			continue
		}
		require.NoError(t, staged)
		selected, err := of.Select(append(columns, dataset.Column{Column: "feature_row"}))
		require.NoError(t, err)
		var ids []int
		for _, o := range selected {
			ids = append(ids, o.Field.ID)
		}
		require.Equal(t, []int{2147483539, 2, 2147483540, 2147483540}, ids)
		require.Equal(t, "row", selected[2].Name)
		require.True(t, resolve.Schema(selected).Field(2).Nullable)
	}
}
