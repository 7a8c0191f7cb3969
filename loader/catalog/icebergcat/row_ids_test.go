package icebergcat_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
)

// edit changes the current metadata file of a table.
func (w *writer) edit(t *testing.T, change func(fields map[string]json.RawMessage)) {
	t.Helper()
	path := local(t, w.load(t, events).MetadataLocation())
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
		w := newWriter(t)
		spec := w.create(t, events, idSchema(), formatVersion("3")).Spec()
		w.edit(t, without)
		tables := w.changes(t).tables
		table, err := tables.Table(t.Context(), events, dataset.Ref{})
		require.NoError(t, err, "it is empty")
		require.Equal(t, catalog.LineageFields(), table.Lineage)
		state, err := tables.State(t.Context(), events, "")
		require.NoError(t, err)
		require.Equal(t, 3, state.Version)

		w = newWriter(t)
		w.create(t, events, idSchema(), formatVersion("3"))
		w.add(t, events, "", dataFile(t, spec, location("a"), nil, firstRow))
		path := local(t, w.load(t, events).MetadataLocation())
		w.edit(t, without)
		tables = w.changes(t).tables
		table, err = tables.Table(t.Context(), events, dataset.Ref{})
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
		_, err = tables.State(t.Context(), events, "")
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "has no next-row-id")
		_, err = tables.Commit(t.Context(), commit.Change{Table: events, Token: token("x"), Add: []commit.DataFile{{Location: location("b"), Rows: 1, Bytes: 9}}})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}

// firstRow gives the rows of a file ids from 0 on.
func firstRow(b *iceberg.DataFileBuilder) { b.FirstRowID(0) }

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
		"a transform":                set("partition-specs", `[{"spec-id":0,"fields":[]},{"spec-id":5,"fields":[{"name":"p","transform":"later[7]","source-id":1,"field-id":1000}]}]`),
		"a transform of several":     set("partition-specs", `[{"spec-id":0,"fields":[]},{"spec-id":5,"fields":[{"name":"p","transform":"later","source-ids":[1],"field-id":1000}]}]`),
		"an order":                   set("sort-orders", `[{"order-id":0,"fields":[]},{"order-id":9,"fields":[{"transform":"later","source-id":1,"direction":"asc","null-order":"nulls-first"}]}]`),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t)
			w.create(t, events, idSchema(), formatVersion("3"))
			w.add(t, events, "", dataFile(t, w.load(t, events).Spec(), location("a"), nil, firstRow))
			w.edit(t, change)
			reader := w.open(t)
			table, err := reader.Table(t.Context(), events, dataset.Ref{})
			require.NoError(t, err)
			files, err := reader.Files(t.Context(), table, []int{1}, []int{1})
			require.NoError(t, err)
			require.Len(t, files, 1)
		})
	}
}
