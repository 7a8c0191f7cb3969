package manifests_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/manifests"
)

// form is that of a table with one column, which is the partition.
func form(name string, of iceberg.Type) manifests.ManifestForm {
	return manifests.ManifestForm{
		Spec:   iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: name, Transform: iceberg.IdentityTransform{}}),
		Schema: iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: name, Type: of}),
	}
}

// written encodes a manifest with a file for each partition value, and returns it with its entry in the manifest list.
func written(t *testing.T, version int, of manifests.ManifestForm, values ...any) ([]byte, iceberg.ManifestFile) {
	t.Helper()
	s := manifests.NewSnapshot{Version: version, ID: 7, Sequence: 3}
	var entries []iceberg.ManifestEntry
	for _, v := range values {
		data, err := of.Data(commit.DataFile{Location: "file:///a.parquet", Partition: []any{v}, Rows: 5, Bytes: 100}, version)
		require.NoError(t, err)
		entries = append(entries, s.Added(data, 0))
	}
	content, file, err := s.Encode("file:///m.avro", of, entries)
	require.NoError(t, err)
	list, _, err := s.EncodeList([]iceberg.ManifestFile{file})
	require.NoError(t, err)
	files, err := iceberg.ReadManifestList(bytes.NewReader(list))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return content, files[0]
}

// An empty text is a bound: readers take absent bounds for those of a manifest that has only nulls.
//
// spec: write-28
func TestEmptyPartitionValuesAreBounds(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 3; version++ {
		for _, of := range []iceberg.Type{iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Binary} {
			for _, values := range [][]any{{"", nil, "b"}, {""}} {
				_, m := written(t, version, form("country", of), values...)
				summary := m.Partitions()[0]
				require.NotNil(t, summary.LowerBound, "%s, version %d", of, version)
				require.NotNil(t, summary.UpperBound)
				require.Empty(t, *summary.LowerBound)
				require.Equal(t, values[len(values)-1], string(*summary.UpperBound))
				require.Equal(t, len(values) == 3, summary.ContainsNull)
				require.EqualValues(t, len(values), m.AddedDataFiles())
				require.EqualValues(t, 5*len(values), m.AddedRows())
				require.EqualValues(t, 7, m.SnapshotID())
				if version > 1 {
					require.EqualValues(t, 3, m.SequenceNum())
					require.EqualValues(t, 3, m.MinSequenceNum())
				}
			}
			_, m := written(t, version, form("country", of), nil)
			require.Nil(t, m.Partitions()[0].LowerBound)
			require.Nil(t, m.Partitions()[0].UpperBound)
		}
	}
}

// Whichever zero comes first: -0.0 is within the bounds of 0.0, and the other way round.
//
// spec: write-28
func TestBoundsOfZeros(t *testing.T) {
	t.Parallel()
	negative := math.Copysign(0, -1)
	for of, width := range map[iceberg.Type]int{iceberg.PrimitiveTypes.Float32: 4, iceberg.PrimitiveTypes.Float64: 8} {
		zero, minus := make([]byte, width), make([]byte, width)
		minus[width-1] = 0x80
		for _, values := range [][]any{{0.0}, {negative}, {0.0, negative}, {negative, 0.0, nil}} {
			_, m := written(t, 2, form("price", of), values...)
			require.Equal(t, minus, *m.Partitions()[0].LowerBound, "%s %v", of, values)
			require.Equal(t, zero, *m.Partitions()[0].UpperBound)
		}
		_, m := written(t, 2, form("price", of), -2.0, 2.0)
		require.Equal(t, byte(0xc0), (*m.Partitions()[0].LowerBound)[width-1])
		require.Equal(t, byte(0x40), (*m.Partitions()[0].UpperBound)[width-1])
		_, m = written(t, 2, form("price", of), -2.0, negative)
		require.Equal(t, zero, *m.Partitions()[0].UpperBound)
		_, m = written(t, 2, form("price", of), nil)
		require.Nil(t, m.Partitions()[0].LowerBound)
	}
	_, m := written(t, 2, form("id", iceberg.PrimitiveTypes.Int64), int64(0), int64(math.MinInt64))
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, *m.Partitions()[0].LowerBound)
	require.Equal(t, make([]byte, 8), *m.Partitions()[0].UpperBound)
	_, m = written(t, 2, form("id", iceberg.PrimitiveTypes.Int64), int64(0))
	require.Equal(t, make([]byte, 8), *m.Partitions()[0].LowerBound)
}

// Partition fields are named after columns, whose names may have any characters.
//
// spec: write-29
func TestPartitionFieldsHaveAnyName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"plain_1": "plain_1", "request-id": "request_x2Did", "1st": "_1st", "a b.c": "a_x20b_x2Ec", "größe": "gr_xF6_xDFe",
	} {
		content, m := written(t, 2, form(name, iceberg.PrimitiveTypes.Int64), int64(4))
		require.EqualValues(t, 1, m.AddedDataFiles())
		reader, err := iceberg.NewManifestReader(m, bytes.NewReader(content))
		require.NoError(t, err)
		e, err := reader.ReadEntry()
		require.NoError(t, err)
		require.Equal(t, map[int]any{1000: int64(4)}, e.DataFile().Partition())
		require.Contains(t, string(content), `"name":"`+want+`"`)
		require.NoError(t, reader.Close())
	}
}
