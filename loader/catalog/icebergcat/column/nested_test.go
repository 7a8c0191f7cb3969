package column_test

import (
	"encoding/binary"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// spec: join-85
func TestColumnsInsideStructs(t *testing.T) {
	long := iceberg.PrimitiveTypes.Int64
	w := icebergtest.NewWriter(t)
	spec := iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{5}, FieldID: 1000, Name: "key_bucket", Transform: iceberg.BucketTransform{NumBuckets: 4}},
		iceberg.PartitionField{SourceIDs: []int{9}, FieldID: 1001, Name: "at_day", Transform: iceberg.DayTransform{}})
	spec = w.Create(t, icebergtest.Events, icebergtest.NestedSchema("key", long), icecatalog.WithPartitionSpec(&spec)).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), map[int]any{1000: int32(3), 1001: iceberg.Date(20000)}, func(b *iceberg.DataFileBuilder) {
		bound := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
		b.LowerBoundValues(map[int][]byte{5: bound(7)}).UpperBoundValues(map[int][]byte{5: bound(70)}).NullValueCounts(map[int]int64{5: 2})
	}))
	reader := w.Open(t)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, []string{"id", "user", "day", "pairs"}, table.Names(), "nested columns are not listed")
	key := catalog.Field{ID: 5, Name: "user.in.key", Type: arrow.PrimitiveTypes.Int64}
	require.Equal(t, []catalog.Field{
		{ID: 3, Name: "user.n", Type: arrow.PrimitiveTypes.Int32},
		key,
		{ID: 9, Name: "day.at", Type: arrow.FixedWidthTypes.Date32, Required: true},
	}, table.Nested, "a required column of an optional struct is optional")
	got, ok := table.Field("user.in.key")
	require.True(t, ok)
	require.Equal(t, key, got)
	got, ok = table.ByID(5)
	require.True(t, ok)
	require.Equal(t, key, got)
	for _, name := range []string{"user.in", "user.in.tags", "pairs.x", "key", "user.in.tags.element"} {
		_, ok := table.Field(name)
		require.False(t, ok, name)
	}
	require.Equal(t, 5, table.Specs[0][0].Source)

	files, err := reader.Files(t.Context(), table, []int{1, 5}, []int{5, 9})
	require.NoError(t, err)
	require.Equal(t, []any{int64(3), int64(20000)}, files[0].Partition)
	require.Equal(t, expr.Range{Lower: expr.Int(7), Upper: expr.Int(70), HasLower: true, HasUpper: true, Nulls: 2, Rows: 10}, files[0].Ranges[5])
	require.Equal(t, expr.Unbounded(10), files[0].Ranges[9])
	_, err = reader.Files(t.Context(), table, []int{7}, nil)
	require.ErrorContains(t, err, "no column with field id 7")
}

// TestChangedColumnsInsideStructsAreListed checks that files are read by field id.
func TestChangedColumnsInsideStructsAreListed(t *testing.T) {
	integer, long := iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int64
	for name, after := range map[string]*iceberg.Schema{
		"the same": icebergtest.NestedSchema("key", integer), "renamed": icebergtest.NestedSchema("id", integer), "promoted": icebergtest.NestedSchema("key", long),
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, icebergtest.NestedSchema("key", integer)).Spec()
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
			w.Alter(t, icebergtest.Events, after.Fields()...)
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("b"), nil, nil))
			files, err := icebergtest.List(t, w.Open(t), 1, 5)
			require.NoError(t, err)
			require.Len(t, files, 2)
		})
	}
}

func TestSortOrders(t *testing.T) {
	w := icebergtest.NewWriter(t)
	order, err := icetable.NewSortOrder(1, []icetable.SortField{
		{SourceIDs: []int{5}, Transform: iceberg.IdentityTransform{}, Direction: icetable.SortASC, NullOrder: icetable.NullsFirst},
		{SourceIDs: []int{9}, Transform: iceberg.DayTransform{}, Direction: icetable.SortDESC, NullOrder: icetable.NullsLast},
	})
	require.NoError(t, err)
	spec := w.Create(t, icebergtest.Events, icebergtest.NestedSchema("key", iceberg.PrimitiveTypes.Int64), icecatalog.WithSortOrder(order)).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(b *iceberg.DataFileBuilder) { b.SortOrderID(1) }),
		icebergtest.DataFile(t, spec, icebergtest.Location("b"), nil, nil))
	reader := w.Open(t)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, map[int]catalog.SortOrder{1: {
		{Source: 5, Transform: catalog.Transform{Kind: catalog.Identity}, NullsFirst: true},
		{Source: 9, Transform: catalog.Transform{Kind: catalog.Day}, Descending: true},
	}}, table.SortOrders)
	files, err := icebergtest.List(t, reader, 1)
	require.NoError(t, err)
	require.Equal(t, 1, files[0].SortOrder)
	require.Zero(t, files[1].SortOrder)

	w = icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, icebergtest.IDSchema())
	table, err = w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Nil(t, table.SortOrders)
	require.Nil(t, table.Nested)
}
