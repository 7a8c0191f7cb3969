package metadata_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// metadataPath returns the path of the last metadata file of the table, which iceberg-go may not be able to read.
func metadataPath(t *testing.T, w *icebergtest.Writer) string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(w.Dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".metadata.json") {
			files = append(files, path)
		}
		return err
	}))
	require.NotEmpty(t, files)
	return slices.MaxFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
}

func metadataText(t *testing.T, w *icebergtest.Writer) []byte {
	t.Helper()
	content, err := os.ReadFile(metadataPath(t, w))
	require.NoError(t, err)
	return content
}

// edit changes the current metadata file of a table.
func edit(t *testing.T, w *icebergtest.Writer, change func(fields map[string]json.RawMessage)) {
	t.Helper()
	path := metadataPath(t, w)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	fields := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(content, &fields))
	change(fields)
	content, err = json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// TestTablesWithoutNextRowID reads tables of format version 3 whose metadata does not have the next
// row id, as early writers left it. A table without commits is as any other. Rows of others have no
// ids, which queries refuse by name, and no snapshot is added.
//
// spec: resolve-128, write-66
func TestTablesWithoutNextRowID(t *testing.T) {
	for _, value := range []string{"", "null"} {
		without := func(fields map[string]json.RawMessage) {
			require.Contains(t, fields, "next-row-id")
			delete(fields, "next-row-id")
			if value != "" {
				fields["next-row-id"] = json.RawMessage(value)
			}
		}
		w := icebergtest.NewWriter(t)
		spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("3")).Spec()
		edit(t, w, without)
		tables := w.Changes(t).Tables
		table, err := tables.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err, "it is empty")
		require.Equal(t, catalog.LineageFields(), table.Lineage)
		state, err := tables.State(t.Context(), icebergtest.Events, "")
		require.NoError(t, err)
		require.Equal(t, 3, state.Version)

		w = icebergtest.NewWriter(t)
		w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("3"))
		w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, firstRow))
		path := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
		edit(t, w, without)
		tables = w.Changes(t).Tables
		table, err = tables.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		require.Empty(t, table.Lineage)
		files, err := tables.Files(t.Context(), table, []int{1}, nil)
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.Nil(t, files[0].FirstRow)
		_, err = tables.Files(t.Context(), table, []int{2147483540}, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)

		before, err := os.ReadFile(path)
		require.NoError(t, err)
		_, err = tables.State(t.Context(), icebergtest.Events, "")
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "has no next-row-id")
		_, err = tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("x"), Add: []commit.DataFile{{Location: icebergtest.Location("b"), Rows: 1, Bytes: 9}}})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}

// firstRow gives the rows of a file ids from 0 on.
func firstRow(b *iceberg.DataFileBuilder) { b.FirstRowID(0) }

// TestUnknownRefs asks for a ref that is neither a branch nor a tag, and changes a table with one, in all format versions.
//
// spec: resolve-129, write-67
func TestUnknownRefs(t *testing.T) {
	for _, version := range []string{"1", "2", "3"} {
		w := icebergtest.NewWriter(t)
		spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion(version)).Spec()
		w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, firstRow))
		snapshot := w.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
		mark := fmt.Sprintf(`{"snapshot-id":%d,"type":"bookmark","later":[1.10, 2]}`, snapshot)
		own := catalog.PinTagPrefix + icebergtest.Itoa(snapshot)
		edit(t, w, func(fields map[string]json.RawMessage) {
			require.Contains(t, string(fields["refs"]), `{"main":`)
			fields["refs"] = bytes.Replace(fields["refs"], []byte(`{`), fmt.Appendf(nil, `{"mark":%s,"%s":%s,`, mark, own, mark), 1)
		})
		tables := w.Changes(t).Tables
		table, err := tables.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		before := metadataText(t, w)
		_, err = tables.Table(t.Context(), icebergtest.Events, dataset.Ref{Name: "mark"})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, `ref mark of table ml.events is a "bookmark", which this version does not support`)
		_, err = tables.State(t.Context(), icebergtest.Events, "mark")
		require.ErrorContains(t, err, `is a "bookmark"`)
		_, err = tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "mark", Begin: snapshot, Token: icebergtest.Token("x"), Add: addedFile("b")})
		require.ErrorContains(t, err, `is a "bookmark"`)
		require.ErrorContains(t, tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "mark", To: snapshot}), `is a "bookmark"`)
		require.ErrorContains(t, tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "mark", From: snapshot}), `is a "bookmark"`)
		_, err = tables.Tag(t.Context(), table, icebergtest.Until(time.Now(), time.Now().Add(time.Hour)))
		require.ErrorContains(t, err, "ref "+own+` of table ml.events is a "bookmark"`)
		require.Equal(t, string(before), string(metadataText(t, w)))

		// Commits to other refs keep these as they are.
		_, err = tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("y"), Add: addedFile("b")})
		require.NoError(t, err)
		table, err = tables.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		_, err = tables.Tag(t.Context(), table, icebergtest.Until(time.Now(), time.Now().Add(time.Hour)))
		require.NoError(t, err)
		text := string(metadataText(t, w))
		compact := strings.ReplaceAll(mark, ", ", ",") // as edit writes it
		require.Contains(t, text, `"mark":`+compact)
		require.Contains(t, text, `"`+own+`":`+compact)
		files, err := icebergtest.List(t, tables, 1)
		require.NoError(t, err)
		require.Len(t, files, 2)
	}
}

// addedFile returns a file to add.
func addedFile(name string) []commit.DataFile {
	return []commit.DataFile{{Location: icebergtest.Location(name), Rows: 1, Bytes: 9}}
}

// TestUnknownColumnTypes asks for columns of types that are not known, and changes a table with them, in all format versions.
//
// spec: resolve-129, write-67
func TestUnknownColumnTypes(t *testing.T) {
	date := iceberg.PrimitiveTypes.Date
	for _, version := range []string{"1", "2", "3"} {
		w := icebergtest.NewWriter(t)
		spec := w.Create(t, icebergtest.Events, iceberg.NewSchema(0, icebergtest.IDSchema().Field(0),
			icebergtest.Field(2, "s", icebergtest.StructOf(icebergtest.Field(3, "x", date), icebergtest.Field(4, "y", iceberg.PrimitiveTypes.Int64))),
			icebergtest.Field(5, "l", &iceberg.ListType{ElementID: 6, Element: date, ElementRequired: true}), icebergtest.Field(7, "d", date),
			icebergtest.Field(8, "m", &iceberg.MapType{KeyID: 9, KeyType: date, ValueID: 10, ValueType: date, ValueRequired: true})), icebergtest.FormatVersion(version)).Spec()
		w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, firstRow))
		snapshot := w.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
		edit(t, w, func(fields map[string]json.RawMessage) {
			for _, name := range []string{"schema", "schemas"} {
				if fields[name] != nil {
					fields[name] = bytes.ReplaceAll(fields[name], []byte(`"date"`), []byte(`"interval"`))
				}
			}
		})
		tables := w.Changes(t).Tables
		table, err := tables.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		_, err = tables.Files(t.Context(), table, []int{1, 4}, []int{1})
		require.NoError(t, err)
		for id, text := range map[int]string{2: `"s" of table ml.events is of type struct`, 3: `"s.x" of table ml.events is of type interval`, 5: `"l" of table`, 7: `"d" of table ml.events is of type interval`, 8: `"m" of table`} {
			_, err = tables.Files(t.Context(), table, []int{id}, nil)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "column "+text)
			require.ErrorContains(t, err, "which is not supported by this version")
		}
		before := metadataText(t, w)
		_, err = tables.State(t.Context(), icebergtest.Events, "")
		require.ErrorContains(t, err, "it has columns of type interval, which this version does not know")
		_, err = tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("z"), Add: addedFile("c")})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		_, err = tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, UUID: table.Pin.UUID})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.Equal(t, string(before), string(metadataText(t, w)))

		// Refs can be set, which keeps the schemas as they are.
		require.NoError(t, tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "copy", To: snapshot}))
		_, err = tables.Tag(t.Context(), table, icebergtest.Until(time.Now(), time.Now().Add(time.Hour)))
		require.NoError(t, err)
		var was, is map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(before, &was))
		require.NoError(t, json.Unmarshal(metadataText(t, w), &is))
		require.Equal(t, string(was["schemas"]), string(is["schemas"]))
		require.Equal(t, string(was["schema"]), string(is["schema"]))
		require.Contains(t, string(is["refs"]), `"copy":`)
	}
}

// TestMetadataOfLaterWriters reads metadata with what later writers may add: fields, operations, references,
// statistics and transforms that are not known.
//
// spec: resolve-129
func TestMetadataOfLaterWriters(t *testing.T) {
	set := func(name, value string) func(map[string]json.RawMessage) {
		return func(fields map[string]json.RawMessage) { fields[name] = json.RawMessage(value) }
	}
	replace := func(name, from, to string) func(map[string]json.RawMessage) {
		return func(fields map[string]json.RawMessage) {
			require.Contains(t, string(fields[name]), from)
			fields[name] = bytes.ReplaceAll(fields[name], []byte(from), []byte(to))
		}
	}
	for name, change := range map[string]func(map[string]json.RawMessage){
		"a field":                    set("later", `{"a": [1, {"b": null}]}`),
		"a field of a snapshot":      replace("snapshots", `"snapshot-id":`, `"later":{"x":[]},"snapshot-id":`),
		"a field of a schema":        replace("schemas", `"schema-id":`, `"later":{"x":[]},"schema-id":`),
		"a field of a column":        replace("schemas", `"name":"id"`, `"later":{"x":[]},"name":"id"`),
		"an operation":               replace("snapshots", `"operation":"`, `"operation":"later-`),
		"statistics":                 set("statistics", `[{"snapshot-id":1,"statistics-path":"file:///s","file-size-in-bytes":9,"file-footer-size-in-bytes":3,"blob-metadata":[{"type":"later-v9","snapshot-id":1,"sequence-number":1,"fields":[1],"properties":{"a":"b"}}]}]`),
		"partition statistics":       set("partition-statistics", `[{"snapshot-id":1,"statistics-path":"file:///s","file-size-in-bytes":9,"later":1}]`),
		"a column of type variant":   replace("schemas", `"type":"struct","fields":[`, `"type":"struct","fields":[{"id":99,"name":"strange","required":false,"type":"variant"},`),
		"a column of type geometry":  replace("schemas", `"type":"struct","fields":[`, `"type":"struct","fields":[{"id":99,"name":"strange","required":false,"type":"geometry(srid:4326)"},`),
		"a column of type geography": replace("schemas", `"type":"struct","fields":[`, `"type":"struct","fields":[{"id":99,"name":"strange","required":false,"type":"geography"},`),
		"a column of type unknown":   replace("schemas", `"type":"struct","fields":[`, `"type":"struct","fields":[{"id":99,"name":"strange","required":false,"type":"unknown"},`),
		"a column of a later type":   replace("schemas", `"type":"struct","fields":[`, `"type":"struct","fields":[{"id":99,"name":"strange","required":false,"type":"interval"},`),
		"a required column":          replace("schemas", `"type":"struct","fields":[`, `"type":"struct","fields":[{"id":99,"name":"strange","required":true,"type":"interval(6)","initial-default":{"months":[7]},"write-default":7},`),
		"a column of a nested type":  replace("schemas", `"type":"struct","fields":[`, `"type":"struct","fields":[{"id":99,"name":"strange","required":false,"type":{"type":"union","of":["int"]}},`),
		"a ref":                      replace("refs", `{"main":`, `{"mark":{"snapshot-id":1,"type":"bookmark","later":[]},"main":`),
		"a transform":                set("partition-specs", `[{"spec-id":0,"fields":[]},{"spec-id":5,"fields":[{"name":"p","transform":"later[7]","source-id":1,"field-id":1000}]}]`),
		"a transform of several":     set("partition-specs", `[{"spec-id":0,"fields":[]},{"spec-id":5,"fields":[{"name":"p","transform":"later","source-ids":[1],"field-id":1000}]}]`),
		"an order":                   set("sort-orders", `[{"order-id":0,"fields":[]},{"order-id":9,"fields":[{"transform":"later","source-id":1,"direction":"asc","null-order":"nulls-first"}]}]`),
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("3"))
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, w.Load(t, icebergtest.Events).Spec(), icebergtest.Location("a"), nil, firstRow))
			edit(t, w, change)
			reader := w.Open(t)
			table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)
			files, err := reader.Files(t.Context(), table, []int{1}, []int{1})
			require.NoError(t, err)
			require.Len(t, files, 1)
		})
	}
}
