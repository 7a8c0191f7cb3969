package scan_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/scan"
)

// migrated is a table with columns id (1), at (2), s: struct<a (4), b (5)> (3), l:
// list<struct<x (8)>> (6, 7), m: map<string, long> (9, 10, 11), which are required
// nowhere, and its partitions say what at is.
func migrated(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	long, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	kinds := func(id func(int, arrow.Field) arrow.Field) []arrow.DataType {
		field := func(n int, name string, dt arrow.DataType) arrow.Field {
			return id(n, arrow.Field{Name: name, Type: dt, Nullable: true})
		}
		key := field(10, "key", text)
		key.Nullable = false
		return []arrow.DataType{
			arrow.StructOf(field(4, "a", long), field(5, "b", text)),
			arrow.ListOfField(field(7, "element", arrow.StructOf(field(8, "x", long)))),
			arrow.MapOfFields(key, field(11, "value", long)),
		}
	}
	plain := kinds(func(_ int, f arrow.Field) arrow.Field { return f })
	stored := kinds(func(n int, f arrow.Field) arrow.Field {
		f.Metadata = withID(n, "", nil).Metadata
		return f
	})
	r.table.Fields = []catalog.Field{
		{ID: 1, Name: "id", Type: long},
		{ID: 2, Name: "at", Type: text},
		{ID: 3, Name: "s", Type: plain[0], Stored: stored[0]},
		{ID: 6, Name: "l", Type: plain[1], Stored: stored[1]},
		{ID: 9, Name: "m", Type: plain[2], Stored: stored[2]},
	}
	r.table.Nested = []catalog.Field{{ID: 4, Name: "s.a", Type: long}, {ID: 5, Name: "s.b", Type: text}}
	r.table.Specs = map[int]catalog.Spec{0: {{ID: 1000, Source: 2, Name: "at", Transform: catalog.Transform{Kind: catalog.Identity}}}}
	r.table.Mapping = catalog.NameMapping{
		{ID: 1, Names: []string{"id", "ID"}},
		{ID: 2, Names: []string{"at"}},
		{ID: 3, Names: []string{"s"}, Fields: catalog.NameMapping{{ID: 4, Names: []string{"a"}}, {ID: 5, Names: []string{"b", "name.b"}}}},
		{ID: 6, Names: []string{"l"}, Fields: catalog.NameMapping{{ID: 7, Names: []string{"element"}, Fields: catalog.NameMapping{{ID: 8, Names: []string{"x"}}}}}},
		{ID: 9, Names: []string{"m"}, Fields: catalog.NameMapping{{ID: 10, Names: []string{"key"}}, {ID: 11, Names: []string{"value"}}}},
	}
	return r
}

// addFile adds a file whose columns have the ids that their metadata says, if any.
func (r *rig) addFile(partition any, rows string, fields ...arrow.Field) {
	r.t.Helper()
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	require.NoError(r.t, err)
	r.addAsIs(batch, bucket.Null)
	r.list[len(r.list)-1].Partition = []any{partition}
}

func nullable(name string, dt arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: dt, Nullable: true}
}

func (r *rig) give(columns ...string) outcome {
	source := r.source()
	source.Checked = nil
	return r.read(r.scanner(scan.Options{}), source, r.columns(columns...))
}

// TestFilesWithoutFieldIDs checks that such files are read by the table's name mapping,
// which has several names for columns and nested fields, along with files that have ids.
//
// spec: resolve-49, resolve-74
func TestFilesWithoutFieldIDs(t *testing.T) {
	t.Parallel()
	long, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	pair := arrow.StructOf(nullable("other", long), nullable("name.b", text), nullable("a", arrow.PrimitiveTypes.Int32))
	list := arrow.ListOfField(nullable("item", arrow.StructOf(nullable("y", long), nullable("x", long))))
	r := migrated(t)
	r.table.Defaults = map[int]arrow.Array{5: one(t, text, `"given"`)}
	r.addFile("de", `[{"m":[{"key":"k","value":7}],"s":{"other":1,"name.b":"b","a":-5},"ID":1,"x":9,"l":[{"y":1,"x":2},null]},
		{"m":null,"s":null,"ID":2,"x":9,"l":null}]`,
		nullable("m", arrow.MapOf(text, long)), nullable("s", pair), nullable("ID", long), nullable("x", long), nullable("l", list))
	r.addFile("at", `[{"id":3,"s":{"a":6}}]`, nullable("id", long), nullable("s", arrow.StructOf(nullable("a", long))))
	r.addFile("ch", `[{"S":4,"l":null,"at":"li"}]`, nullable("S", long), nullable("l", list), nullable("at", text))
	// One with ids, whose names mean nothing.
	r.addFile("fr", `[{"at":5,"id":"x"}]`, withID(1, "at", long), withID(17, "id", text))

	got := r.give("id", "at", "s", "l", "m", "s.a", "s.b")
	require.NoError(t, got.err)
	require.Equal(t, []string{
		`1 | de | {"a":-5,"b":"b"} | [{"x":2},null] | [{"key":"k","value":7}] | -5 | b`,
		`2 | de | (null) | (null) | (null) | (null) | (null)`,
		`3 | at | {"a":6,"b":"given"} | (null) | (null) | 6 | given`,
		`(null) | li | (null) | (null) | (null) | (null) | (null)`,
		`5 | fr | (null) | (null) | (null) | (null) | (null)`,
	}, got.lines)
	got = r.give("id")
	require.NoError(t, got.err)

	source := r.source()
	source.Checked, source.Filter = nil, r.filter("id >= 3 AND at > 'a'")
	got = r.read(r.scanner(scan.Options{}), source, r.columns("id", "at"))
	require.NoError(t, got.err)
	require.Equal(t, []string{"3 | at", "5 | fr"}, got.lines)
}

// TestChangedMappingAppliesToCachedFooters checks that cached footers do not contain the ids
// of a mapping.
//
// spec: resolve-74
func TestChangedMappingAppliesToCachedFooters(t *testing.T) {
	t.Parallel()
	long := arrow.PrimitiveTypes.Int64
	r := migrated(t)
	r.addFile("de", `[{"old":1,"id":2}]`, nullable("old", long), nullable("id", long))
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	defer footers.Close()
	s := r.scanner(scan.Options{Footers: footers})
	for _, c := range []struct{ name, want string }{{"id", "2 | de"}, {"old", "1 | de"}, {"none", "(null) | de"}, {"id", "2 | de"}} {
		r.table.Mapping = catalog.NameMapping{{ID: 1, Names: []string{c.name}}}
		source := r.source()
		source.Checked = nil
		got := r.read(s, source, r.columns("id", "at"))
		require.NoError(t, got.err)
		require.Equal(t, []string{c.want}, got.lines, c.name)
	}
}

// spec: resolve-75
func TestUnmappedFilesAreRefused(t *testing.T) {
	t.Parallel()
	long := arrow.PrimitiveTypes.Int64
	for name, c := range map[string]struct {
		change func(r *rig)
		fields []arrow.Field
		text   string
	}{
		"no mapping": {
			func(r *rig) { r.table.Mapping = nil },
			[]arrow.Field{nullable("id", long)},
			"the file was written without field ids, and the table has no name mapping",
		},
		"some ids": {
			nil, []arrow.Field{withID(1, "id", long), nullable("at", long)}, "with field ids for only some columns",
		},
		"ids inside alone": {
			nil, []arrow.Field{nullable("id", long), nullable("s", arrow.StructOf(withID(4, "a", long)))}, "with field ids for only some columns",
		},
		"two names of one column": {
			nil, []arrow.Field{nullable("id", long), nullable("ID", long)}, "the name mapping gives the file's columns id and ID the same field id 1",
		},
		"a struct without its fields": {
			func(r *rig) { r.table.Mapping[2].Fields = nil },
			[]arrow.Field{nullable("id", long), nullable("s", arrow.StructOf(nullable("a", long)))},
			"the name mapping has a field id for column s of the file, but none for any field inside it",
		},
		"a list without its element": {
			func(r *rig) { r.table.Mapping[3].Fields[0].Names = []string{"item"} },
			[]arrow.Field{nullable("id", long), nullable("l", arrow.ListOfField(nullable("item", arrow.StructOf(nullable("x", long)))))},
			"the name mapping has a field id for column l of the file, but none for any field inside it",
		},
		"another type": {
			nil, []arrow.Field{nullable("id", arrow.BinaryTypes.String)}, "column id is stored as utf8, which this version does not read as int64",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := migrated(t)
			if c.change != nil {
				c.change(r)
			}
			r.addFile("de", `[{}]`, c.fields...)
			got := r.give("id")
			require.Equal(t, fault.Invalid, fault.KindOf(got.err), "%v", got.err)
			require.ErrorContains(t, got.err, c.text)
			require.Empty(t, got.lines)
			require.Equal(t, locationOf(0), fault.As(got.err).File)
		})
	}
}
