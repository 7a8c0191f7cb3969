package metafile_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// avroFile is an Avro file of one block, taken apart.
type avroFile struct {
	metadata map[string]string
	records  int64
	data     []byte // unpacked
}

// readAvro takes an Avro file of one block apart.
func readAvro(t *testing.T, path string) *avroFile {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	rest := content[len("Obj\x01"):]
	number := func() int64 {
		v, n := binary.Varint(rest)
		require.Positive(t, n)
		rest = rest[n:]
		return v
	}
	text := func() string {
		n := number()
		out := string(rest[:n])
		rest = rest[n:]
		return out
	}
	f := &avroFile{metadata: map[string]string{}}
	for entries := number(); entries != 0; entries = number() {
		for range entries {
			key := text()
			f.metadata[key] = text()
		}
	}
	rest = rest[16:]
	f.records = number()
	f.data = []byte(text())
	if f.metadata["avro.codec"] == "deflate" {
		f.data, err = io.ReadAll(flate.NewReader(bytes.NewReader(f.data)))
		require.NoError(t, err)
	}
	f.metadata["avro.codec"] = "null"
	return f
}

// bytes puts the file together again.
func (f *avroFile) bytes() []byte {
	sized := func(out []byte, text string) []byte {
		return append(binary.AppendVarint(out, int64(len(text))), text...)
	}
	out := binary.AppendVarint([]byte("Obj\x01"), int64(len(f.metadata)))
	for _, key := range slices.Sorted(maps.Keys(f.metadata)) {
		out = sized(sized(out, key), f.metadata[key])
	}
	mark := bytes.Repeat([]byte{7}, 16)
	out = append(append(out, 0), mark...)
	return append(out, block(f.records, f.data, mark)...)
}

// replace changes the schema.
func (f *avroFile) replace(t *testing.T, before, after string) {
	t.Helper()
	require.Contains(t, f.metadata["avro.schema"], before)
	f.metadata["avro.schema"] = strings.ReplaceAll(f.metadata["avro.schema"], before, after)
}

// partitionedByNamedTypes is the table of which testdata/by_pyiceberg.avro is a manifest.
func partitionedByNamedTypes(t *testing.T) *icebergtest.Handmade {
	t.Helper()
	w := icebergtest.NewWriter(t)
	columns := []iceberg.NestedField{icebergtest.Field(1, "k", iceberg.PrimitiveTypes.Int64)}
	var parts []iceberg.PartitionField
	for i, f := range []iceberg.NestedField{
		{Name: "a", Type: iceberg.DecimalTypeOf(9, 2)},
		{Name: "b", Type: iceberg.DecimalTypeOf(9, 2)},
		{Name: "f", Type: iceberg.FixedTypeOf(3)},
		{Name: "g", Type: iceberg.FixedTypeOf(3)},
		{Name: "größe", Type: iceberg.PrimitiveTypes.String},
	} {
		columns = append(columns, icebergtest.Field(i+2, f.Name, f.Type))
		parts = append(parts, iceberg.PartitionField{SourceIDs: []int{i + 2}, FieldID: 1000 + i, Name: f.Name, Transform: iceberg.IdentityTransform{}})
	}
	spec := iceberg.NewPartitionSpec(parts...)
	h := &icebergtest.Handmade{Writer: w, Table: w.Create(t, icebergtest.Events, iceberg.NewSchema(0, columns...), icecatalog.WithPartitionSpec(&spec))}
	schema := 0
	h.Snapshot = icetable.Snapshot{
		SnapshotID: 77, SequenceNumber: 1, TimestampMs: time.Now().UnixMilli(), SchemaID: &schema, Summary: &icetable.Summary{Operation: icetable.OpAppend},
	}
	return h
}

// listed lists the files of a manifest, which it writes as part of a new table.
func (f *avroFile) listed(t *testing.T, content iceberg.ManifestContent) ([]catalog.File, error) {
	t.Helper()
	h := partitionedByNamedTypes(t)
	raw := f.bytes()
	path := h.Path("m.avro")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	h.Commit(t, iceberg.NewManifestFile(2, path, int64(len(raw)), 0, h.Snapshot.SnapshotID).
		Content(content).SequenceNum(1, 1).AddedFiles(int32(f.records)).Build())
	return icebergtest.List(t, h.Open(t), 1)
}

func byPyIceberg(t *testing.T) *avroFile {
	t.Helper()
	return readAvro(t, filepath.Join("testdata", "by_pyiceberg.avro"))
}

func namedTypes() []any { return []any{"1.25", "-2.89", "\x06ab", "abc", "é"} }

// TestPartitionFieldsOfNamedTypes reads partition fields that share a named type, in the
// spellings of all writers, and fields with any name.
//
// spec: resolve-82, resolve-83
func TestPartitionFieldsOfNamedTypes(t *testing.T) {
	fixed, decimal := `{"type": "fixed", "size": 3, "name": "fixed_3"}`, `{"type": "fixed", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2, "name": "decimal_9_2"}`
	second := func(t *testing.T, f *avroFile, definition, reference string) {
		t.Helper()
		at := strings.LastIndex(f.metadata["avro.schema"], definition)
		require.NotEqual(t, at, strings.Index(f.metadata["avro.schema"], definition))
		f.metadata["avro.schema"] = f.metadata["avro.schema"][:at] + reference + f.metadata["avro.schema"][at+len(definition):]
	}
	for name, change := range map[string]func(t *testing.T, f *avroFile){
		"each field defines the type, as PyIceberg writes": func(*testing.T, *avroFile) {},
		"the first defines it, as Java writes": func(t *testing.T, f *avroFile) {
			t.Helper()
			second(t, f, fixed, `"fixed_3"`)
			second(t, f, decimal, `"decimal_9_2"`)
		},
		"a reference in an object": func(t *testing.T, f *avroFile) {
			t.Helper()
			second(t, f, fixed, `{"type": "fixed_3"}`)
			second(t, f, decimal, `{"type": "decimal_9_2"}`)
		},
		"names in a namespace": func(t *testing.T, f *avroFile) {
			t.Helper()
			second(t, f, fixed, `"org.iceberg.fixed_3"`)
			second(t, f, decimal, `"decimal_9_2"`)
			f.replace(t, `"name": "manifest_entry"`, `"name": "manifest_entry", "namespace": "org.iceberg"`)
		},
		"names that new names must not meet": func(t *testing.T, f *avroFile) {
			t.Helper()
			f.replace(t, `"name": "a", "field-id": 1000`, `"name": "_1004", "field-id": 1000`)
		},
		"a name of any letters": func(t *testing.T, f *avroFile) {
			t.Helper()
			f.replace(t, `gr\u00f6\u00dfe`, "日本 2")
		},
		"values of fixed types with their lengths, as Java writes since Iceberg 1.8": func(t *testing.T, f *avroFile) {
			t.Helper()
			before := []byte("\x02\x06ab\x02abc\x02\x04é")
			require.Equal(t, 1, bytes.Count(f.data, before))
			f.data = bytes.Replace(f.data, before, []byte("\x02\x06\x06ab\x02\x06abc\x02\x04é"), 1)
		},
		"several records with lengths": func(t *testing.T, f *avroFile) {
			t.Helper()
			f.data = bytes.Replace(f.data, []byte("\x02\x06ab\x02abc\x02\x04é"), []byte("\x02\x06\x06ab\x02\x06abc\x02\x04é"), 1)
			f.data, f.records = bytes.Repeat(f.data, 3), 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := byPyIceberg(t)
			change(t, f)
			files, err := f.listed(t, iceberg.ManifestContentData)
			require.NoError(t, err)
			require.Len(t, files, int(f.records))
			for _, file := range files {
				require.Equal(t, namedTypes(), file.Partition)
			}
		})
	}
}

// TestHostileSchemas checks that a schema costs no more than its text, whatever it contains.
func TestHostileSchemas(t *testing.T) {
	// laughs are records that hold the one before twice, down to one that holds nothing.
	laughs := func(n int) string {
		out := `{"type": "record", "name": "laugh0", "fields": [{"name": "x", "type": "null"}]}`
		for i := 1; i < n; i++ {
			out = fmt.Sprintf(`{"type": "record", "name": "laugh%d", "fields": [{"name": "a", "type": %s}, {"name": "b", "type": "laugh%d"}]}`, i, out, i-1)
		}
		return out
	}
	size := `{"name": "record_count", "field-id": 103, "type": "long"`
	for name, c := range map[string]struct {
		change func(t *testing.T, f *avroFile)
		kind   fault.Kind
		text   string
	}{
		"references that multiply in a partition": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				f.replace(t, `["null", "string"], "default": null}], "name": "r102"`, laughs(18)+`}], "name": "r102"`)
			}, fault.Corrupt, "gives a record more values than that",
		},
		"references that multiply in an unread field": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				f.replace(t, size, `{"name": "other", "type": `+laughs(18)+`}, `+size)
			}, fault.Corrupt, "gives a record more values than that",
		},
		"references that multiply beyond all numbers": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				f.replace(t, size, `{"name": "other", "type": `+laughs(80)+`}, `+size)
			}, fault.Corrupt, "gives a record more values than that",
		},
		"a partition of many fields without a byte": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				var many strings.Builder
				for i := range 10_000 {
					fmt.Fprintf(&many, `, {"name": "n%d", "field-id": %d, "type": "null"}`, i, 2000+i)
				}
				f.replace(t, `], "name": "r102"`, many.String()+`], "name": "r102"`)
				f.data, f.records = bytes.Repeat(f.data, 100), 100
			}, fault.Exhausted, "of memory while it is read",
		},
		"a record in itself": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				f.replace(t, size, `{"name": "other", "type": "manifest_entry"}, `+size)
			}, fault.Corrupt, "cannot be read",
		},
		"types that lie deep": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				deep := strings.Repeat(`{"type": "array", "items": `, 100_000) + `"int"` + strings.Repeat("}", 100_000)
				f.replace(t, size, `{"name": "other", "type": `+deep+`}, `+size)
			}, fault.Exhausted, "of memory while it is read",
		},
		"types that lie less deep": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				deep := strings.Repeat(`[`, 9_000) + `"int"` + strings.Repeat("]", 9_000)
				f.replace(t, size, `{"name": "other", "type": `+deep+`}, `+size)
			}, fault.Corrupt, "cannot be read",
		},
		"a definition that is not the same again": {
			func(t *testing.T, f *avroFile) {
				t.Helper()
				f.replace(t, `"precision": 9, "scale": 2, "name": "decimal_9_2"}], "default": null}, {"name": "f"`,
					`"precision": 9, "scale": 3, "name": "decimal_9_2"}], "default": null}, {"name": "f"`)
			}, fault.Corrupt, "defines a name twice",
		},
		"an undefined type": {
			func(t *testing.T, f *avroFile) { t.Helper(); f.replace(t, `["null", "string"]`, `["null", "strings"]`) },
			fault.Corrupt, "has a type that it does not define",
		},
		"no JSON": {
			func(_ *testing.T, f *avroFile) { f.metadata["avro.schema"] = `{"type": ` },
			fault.Corrupt, "its schema: unexpected EOF",
		},
		"a fixed type of a size that is none": {
			func(t *testing.T, f *avroFile) { t.Helper(); f.replace(t, `"size": 3`, `"size": -3`) },
			fault.Corrupt, "has a type that it does not define",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := byPyIceberg(t)
			c.change(t, f)
			h := partitionedByNamedTypes(t)
			raw := f.bytes()
			require.NoError(t, os.WriteFile(h.Path("m.avro"), raw, 0o600))
			h.Commit(t, iceberg.NewManifestFile(2, h.Path("m.avro"), int64(len(raw)), 0, h.Snapshot.SnapshotID).
				SequenceNum(1, 1).AddedFiles(int32(f.records)).Build())
			opened, held, _ := limited(t, h.Writer, 0, 16<<20)
			_, err := icebergtest.List(t, opened, 1)
			require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, h.Path("m.avro"), fault.As(err).File)
			require.Zero(t, held.Used())
			require.LessOrEqual(t, held.Peak(), int64(16<<20))
		})
	}
}

// TestFixedValuesThatMayHaveLengths checks that a block is corrupt if it can be read both
// with and without lengths before fixed values, since both would return values.
func TestFixedValuesThatMayHaveLengths(t *testing.T) {
	f := byPyIceberg(t)
	f.metadata["avro.schema"] = `{"type": "record", "name": "manifest_entry", "fields": [
		{"name": "status", "type": "int", "field-id": 0},
		{"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
			{"name": "partition", "field-id": 102, "type": {"type": "record", "name": "r102", "fields": [
				{"name": "f", "field-id": 1002, "type": {"type": "fixed", "name": "fixed_1", "size": 1}}]}},
			{"name": "file_path", "field-id": 100, "type": "string"}]}}]}`
	f.data = []byte{2, 2, 2, 0} // a value of 2, then a path of one byte; or a length of 1, a value of 2, then no path
	_, err := f.listed(t, iceberg.ManifestContentData)
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
	require.ErrorContains(t, err, "a block can be read in two ways: with and without lengths before values of type fixed")

	f.data = []byte{2, 2, 2} // neither
	_, err = f.listed(t, iceberg.ManifestContentData)
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
	require.NotContains(t, err.Error(), "in two ways")
}

// TestManifestsThatDoNotNameTheirContent checks that such manifests have the content that
// the manifest list names. Format version 1 has no such key, and Iceberg's Java library does
// not read it in any version.
//
// spec: resolve-84
func TestManifestsThatDoNotNameTheirContent(t *testing.T) {
	for _, version := range []string{"1", "2"} {
		f := byPyIceberg(t)
		delete(f.metadata, "content")
		f.metadata["format-version"] = version
		files, err := f.listed(t, iceberg.ManifestContentData)
		require.NoError(t, err, version)
		require.Len(t, files, 1)
		require.Equal(t, namedTypes(), files[0].Partition)

		_, err = f.listed(t, iceberg.ManifestContentDeletes)
		require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, "data file found in delete manifest")
	}
	f := byPyIceberg(t)
	f.metadata["content"] = "deletes"
	_, err := f.listed(t, iceberg.ManifestContentData)
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
}
