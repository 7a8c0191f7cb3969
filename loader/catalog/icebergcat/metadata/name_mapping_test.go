package metadata_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// spec: resolve-74
func TestNameMappings(t *testing.T) {
	w := icebergtest.MappedTable(t)
	reader := w.Open(t)
	table := func() *catalog.Table {
		out, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		return out
	}
	none := table()
	require.Nil(t, none.Mapping)
	require.Equal(t, dataset.NoMapping, none.Pin.Mapping)

	w.SetMapping(t, icebergtest.OwnNames)
	own := table()
	require.Equal(t, dataset.OwnNames, own.Pin.Mapping)
	for path, id := range map[string]int{"id": 1, "user": 2, "user/n": 3, "tags": 4, "tags/element": 5, "pairs": 6, "pairs/key": 7, "pairs/value": 8} {
		got, ok := find(own, path)
		require.True(t, ok, path)
		require.Equal(t, id, got, path)
	}
	for _, path := range []string{"ID", "n", "user.n", "user/id", "tags/list", "id/element", ""} {
		_, ok := find(own, path)
		require.False(t, ok, path)
	}

	w.SetMapping(t, icebergtest.OtherNames)
	other := table()
	require.Equal(t, catalog.NameMapping{
		{ID: 1, Names: []string{"ID", "id_", "ID"}, Fields: catalog.NameMapping{}},
		{ID: 4, Names: []string{"labels", "tags"}, Fields: catalog.NameMapping{{ID: 5, Names: []string{"element"}, Fields: catalog.NameMapping{}}}},
	}, other.Mapping)
	require.Len(t, other.Pin.Mapping, 16)
	_, ok := find(other, "user")
	require.False(t, ok, "the mapping does not name it")
	w.SetMapping(t, icebergtest.OtherAgain)
	require.Equal(t, other.Pin, table().Pin)

	w.SetMapping(t, "[]")
	nothing := table()
	require.NotNil(t, nothing.Mapping)
	require.Empty(t, nothing.Mapping)
	require.NotContains(t, []string{dataset.NoMapping, dataset.OwnNames, other.Pin.Mapping}, nothing.Pin.Mapping)
}

func find(t *catalog.Table, path string) (int, bool) {
	id, _, ok := t.Mapping.Find(strings.Split(path, "/"))
	return id, ok
}

// TestNameMappingsArePinned checks that a pin always uses the same mapping, or has expired.
//
// spec: resolve-76
func TestNameMappingsArePinned(t *testing.T) {
	w := icebergtest.MappedTable(t)
	reader := w.Open(t)
	pin := func(mapping string) *catalog.Table {
		if mapping != "" {
			w.SetMapping(t, mapping)
		}
		out, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		return out
	}
	none, own, other := pin(""), pin(icebergtest.OwnNames), pin(icebergtest.OtherNames)

	// A column is renamed, one takes its old name, and one is added, all of which the
	// writer tells the mapping.
	long := iceberg.PrimitiveTypes.Int64
	w.Alter(t, icebergtest.Events, icebergtest.Field(1, "number", long), icebergtest.Field(2, "user", icebergtest.StructOf(icebergtest.Field(3, "n", long))), icebergtest.Field(4, "tags", icebergtest.ListOf(5, long)),
		icebergtest.Field(6, "pairs", &iceberg.MapType{KeyID: 7, KeyType: long, ValueID: 8, ValueType: long}), icebergtest.Field(9, "id", long))
	after := pin(`[{"field-id":9,"names":["id"]},{"field-id":1,"names":["number"]}]`)
	require.NotEqual(t, own.Pin.Mapping, after.Pin.Mapping)
	for _, before := range []*catalog.Table{none, own, other, after} {
		again, err := reader.At(t.Context(), icebergtest.Events, before.Pin)
		require.NoError(t, err)
		require.Equal(t, before.Mapping, again.Mapping)
		require.Equal(t, before.Pin, again.Pin)
		_, err = reader.Files(t.Context(), again, []int{1}, nil)
		require.NoError(t, err)
	}

	w.Update(t, icebergtest.Events, icetable.NewRemovePropertiesUpdate([]string{icetable.DefaultNameMappingKey}))
	now := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
	files, err := filepath.Glob(filepath.Join(filepath.Dir(now), "*.metadata.json"))
	require.NoError(t, err)
	remove := func(holding string) { // as writers do that keep little old metadata
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil && file != now && strings.Contains(string(text), holding) {
				require.NoError(t, os.Remove(file))
			}
		}
	}
	has := func(of *catalog.Table, still bool) {
		again, err := reader.At(t.Context(), icebergtest.Events, of.Pin)
		if still {
			require.NoError(t, err)
			require.Equal(t, of.Mapping, again.Mapping)
			return
		}
		require.Equal(t, fault.Expired, fault.KindOf(err))
		require.EqualError(t, err, "the name mapping of table ml.events, which applies to its files without field ids, has changed; plan again without this pin")
		require.Equal(t, icebergtest.Events, fault.As(err).Table)
	}
	remove("labels")
	has(other, false)
	has(after, true)
	remove("")
	has(after, false)
	has(own, true) // the pinned schema has the names
	has(none, true)
}

// spec: resolve-77
func TestInvalidNameMappings(t *testing.T) {
	for name, c := range map[string]struct{ text, why string }{
		"no JSON":        {`{`, "unexpected end of JSON input"},
		"no list":        {`{"names":[]}`, "cannot unmarshal object"},
		"a name twice":   {`[{"field-id":1,"names":["a"]},{"field-id":2,"names":["b","a"]}]`, `name "a" stands for two fields`},
		"an id twice":    {`[{"field-id":1,"names":["a"]},{"field-id":2,"names":["b"],"fields":[{"field-id":1,"names":["c"]}]}]`, "field-id 1 stands for two fields"},
		"inside of none": {`[{"names":["a"],"fields":[{"field-id":3,"names":["n"]}]}]`, "field a has no field-id, and a field in it has one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.MappedTable(t)
			w.SetMapping(t, c.text)
			_, err := w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
			require.ErrorContains(t, err, "property schema.name-mapping.default of table ml.events: ")
			require.ErrorContains(t, err, c.why)
		})
	}
}

// TestRangesOfMappedTables checks that a manifest's value ranges of imported files are not
// used, since they may be of another column by now, and that partition values are used.
//
// spec: resolve-80
func TestRangesOfMappedTables(t *testing.T) {
	w := icebergtest.NewWriter(t)
	long := iceberg.PrimitiveTypes.Int64
	schema := iceberg.NewSchema(0, icebergtest.Field(1, "id", long), icebergtest.Field(2, "day", long))
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "day", Transform: iceberg.IdentityTransform{}})
	made := w.Create(t, icebergtest.Events, schema, icecatalog.WithPartitionSpec(&spec)).Spec()
	eight := func(n byte) []byte { return []byte{n, 0, 0, 0, 0, 0, 0, 0} }
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, made, icebergtest.Location("a"), map[int]any{1000: int64(7)}, func(b *iceberg.DataFileBuilder) {
		b.LowerBoundValues(map[int][]byte{1: eight(3)}).UpperBoundValues(map[int][]byte{1: eight(5)}).NullValueCounts(map[int]int64{1: 0}).ValueCounts(map[int]int64{1: 1})
	}))
	ranges := func() map[int]expr.Range {
		reader := w.Open(t)
		table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		files, err := reader.Files(t.Context(), table, []int{1, 2}, []int{1, 2})
		require.NoError(t, err)
		return files[0].Ranges
	}
	rows := ranges()[2]
	require.True(t, ranges()[1].HasLower)
	w.SetMapping(t, `[{"field-id":1,"names":["id"]},{"field-id":2,"names":["day"]}]`)
	mapped := ranges()
	require.Equal(t, expr.Unbounded(mapped[1].Rows), mapped[1])
	require.Equal(t, rows, mapped[2])
}
