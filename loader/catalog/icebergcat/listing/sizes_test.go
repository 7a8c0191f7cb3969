package listing_test

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// TestSizesOfColumns checks the stored sizes of columns in data files: of columns with others inside of them, of files of which
// some or all sizes are unknown, and of a snapshot that has expired.
//
// spec: resolve-119
func TestSizesOfColumns(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.NestedSchema("key", iceberg.PrimitiveTypes.Int64)).Spec()
	sized := func(name string, sizes map[int]int64) iceberg.DataFile {
		return icebergtest.DataFile(t, spec, icebergtest.Location(name), nil, func(b *iceberg.DataFileBuilder) {
			if sizes != nil {
				b.ColumnSizes(sizes)
			}
		})
	}
	w.Add(t, icebergtest.Events, "", sized("whole", map[int]int64{1: 1, 3: 20, 5: 300, 7: 4000, 9: 50_000, 12: 600_000}), sized("some", map[int]int64{1: 7, 5: 8}))
	w.Add(t, icebergtest.Events, "", sized("none", nil), sized("wrong", map[int]int64{1: -1, 5: 8}))
	c := w.Open(t)
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		columns []int
		want    map[string]int64
	}{
		"a column":             {[]int{1}, map[string]int64{"whole": 1, "some": 7}},
		"several":              {[]int{1, 5}, map[string]int64{"whole": 301, "some": 15}},
		"a struct":             {[]int{2}, map[string]int64{"whole": 4320}},
		"a list of structs":    {[]int{10}, map[string]int64{"whole": 600_000}},
		"inside of a struct":   {[]int{5}, map[string]int64{"whole": 300, "some": 8, "wrong": 8}},
		"no column":            {[]int{}, map[string]int64{"whole": 0, "some": 0, "none": 0, "wrong": 0}},
		"structs and a column": {[]int{2, 8, 1}, map[string]int64{"whole": 54_321}},
	} {
		want := map[string]int64{}
		for file, bytes := range test.want {
			want[icebergtest.Location(file)] = bytes
		}
		got, err := c.ColumnBytes(t.Context(), table, test.columns)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	w.Add(t, icebergtest.Events, "", sized("later", nil))
	w.Expire(t, icebergtest.Events, table.Pin.Snapshot)
	_, err = c.ColumnBytes(t.Context(), table, []int{1})
	require.Equal(t, fault.Expired, fault.KindOf(err), "%v", err)
}
