package listing_test

import (
	"testing"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// TestLineage checks that files have row ids from the first commit after the upgrade on,
// taken from the manifest if they have none of their own.
//
// spec: resolve-78, resolve-79
func TestLineage(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("2")).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
	reader := w.Open(t)
	before, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Empty(t, before.Lineage)
	_, known := before.Field(catalog.RowIDColumn)
	require.False(t, known)
	ids := []int{2147483540, 2147483539}
	_, err = reader.Files(t.Context(), before, ids, nil)
	require.ErrorContains(t, err, "has no column with field id 2147483540")
	files, err := reader.Files(t.Context(), before, []int{1}, nil)
	require.NoError(t, err)
	require.Nil(t, files[0].FirstRow)

	w.Update(t, icebergtest.Events, icetable.NewUpgradeFormatVersionUpdate(3))
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, catalog.LineageFields(), table.Lineage)
	require.Equal(t, before.Names(), table.Names(), "they are none of all columns")
	files, err = reader.Files(t.Context(), table, ids, ids)
	require.NoError(t, err)
	require.Nil(t, files[0].FirstRow, "the manifest has no row ids yet")
	require.Empty(t, files[0].Ranges, "bounds are those of ids that are stored")
	_, _, known = files[0].LineageOf(ids[1])
	require.False(t, known)

	// The next commit gives ids to all manifests that have none, which their files
	// inherit.
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("b"), nil, func(b *iceberg.DataFileBuilder) { b.FirstRowID(40) }))
	table, err = reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	files, err = reader.Files(t.Context(), table, ids, nil)
	require.NoError(t, err)
	starts := map[int64]bool{}
	for _, f := range files {
		require.NotNil(t, f.FirstRow, f.Location)
		starts[*f.FirstRow] = true
		first, step, known := f.LineageOf(ids[0])
		require.True(t, known)
		require.Equal(t, []int64{*f.FirstRow, 1}, []int64{first, step})
		first, step, known = f.LineageOf(ids[1])
		require.True(t, known)
		require.Equal(t, []int64{f.Sequence, 0}, []int64{first, step})
	}
	require.Equal(t, map[int64]bool{10: true, 40: true}, starts, "the new manifest comes first")
}

// spec: resolve-78
func TestInvalidLineage(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("3")).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(b *iceberg.DataFileBuilder) { b.FirstRowID(1<<63 - 5) }))
	_, err := icebergtest.List(t, w.Open(t), 1)
	require.ErrorContains(t, err, "gives file /warehouse/a.parquet row ids from 9223372036854775803 on")
}
