package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/dataset"
)

// TestOtherNamesOfALimitedTable uses a REST catalog that accepts table@ref as a table name, as
// Nessie does, so that one table has several names. A client that uses another name than the policy
// gets no rows.
//
// spec: access-14
func TestOtherNamesOfALimitedTable(t *testing.T) {
	s := serveOtherNames(t)
	folder := lake{dir: t.TempDir()}
	config := folder.file(t, "penstock.yaml", "catalogs:\n  default: {type: rest, uri: '"+s.URL+"', warehouse: prod, token: given}\ndatasets:\n  home: {training: {table: ml.impressions}}\n")
	file := filepath.Join(t.TempDir(), "server.tokens")
	bob := issued(t, file, "bob")
	server := start(t, "--config", config, "--tokens", file, "--policy", policyFile(t,
		"rules:\n- subjects: [bob]\n  read: [home]\n  inline: [\"ml.*\"]\n  tables:\n    ml.impressions: {withheld: [item], filter: \"label\"}\n"))
	ask := func(table string) ran {
		return run(t, "cat", "--query", `{"dataset": {"training": {"table": "`+table+`"}}, "columns": ["item", "label"]}`, "--uri", server.uri(), "--token-file", bob)
	}
	got := ask("ml.impressions")
	require.NotZero(t, got.code)
	require.Contains(t, got.stderr, `no column "item"`)
	got = ask("ml.impressions@main")
	require.NotZero(t, got.code)
	require.Contains(t, got.stderr, "this client may not send a dataset of these tables")
}

// serveOtherNames serves the lake's tables with a REST catalog that accepts table@ref as a table
// name.
func serveOtherNames(t *testing.T) *restcattest.Server {
	t.Helper()
	s := readLake(t).serveREST(t)
	under := s.Tables
	s.Tables = func(namespace []string, name string) (restcattest.Table, bool) {
		name, _, _ = strings.Cut(name, "@")
		return under(namespace, name)
	}
	return s
}

// TestWritesShowNoLimitedTableByAnotherName checks that a client cannot use another name of a table
// than the policy does to find out the table's partition columns, or the keys of rows that the
// client may not read.
//
// spec: access-14, stage-69
func TestWritesShowNoLimitedTableByAnotherName(t *testing.T) {
	s := serveOtherNames(t)
	l := stagingLake(t)
	config := l.file(t, "both.yaml", strings.Replace(string(must(os.ReadFile(l.config))), "catalogs:\n",
		"catalogs:\n  rest: {type: rest, uri: '"+s.URL+"', warehouse: prod, token: given}\n", 1))
	settings, err := process{}.load(config, nil)
	require.NoError(t, err)
	e, err := engine.Assemble(t.Context(), settings, nil)
	require.NoError(t, err)
	defer e.Close()
	limited, err := settings.ParsePolicy([]byte(
		"rules:\n- subjects: [bob]\n  inline: [\"*\"]\n  write: [\"features.*\"]\n  allow: [stage]\n  tables:\n    rest.ml.impressions: {withheld: [item], filter: \"label\"}\n"))
	require.NoError(t, err)
	rights, may := limited.Inline(identity.Caller{Subject: "bob"}, dataset.Dataset{Training: dataset.Training{Table: "rest.ml.impressions@main"}})
	require.True(t, may)
	w := e.TableWriter(1)
	schema := arrow.NewSchema([]arrow.Field{{Name: "request_id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	row, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"request_id": 2}]`))
	require.NoError(t, err)
	defer row.Release()
	write := func(request dataset.TableWrite, from access.WriteSources) error {
		rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{row})
		require.NoError(t, err)
		defer rows.Release()
		request.Table, request.Key, request.DryRun = "features.history", []string{"request_id"}, true
		_, err = w.Stage(t.Context(), request, from, nil, rows)
		return err
	}
	require.NoError(t, write(dataset.TableWrite{Buckets: 4, OnlyKeysOf: "rest.ml.impressions@main"}, access.WriteSources{}), "the name is that of a table")
	err = write(dataset.TableWrite{Buckets: 4, OnlyKeysOf: "rest.ml.impressions@main"}, access.WriteSources{KeysRights: rights})
	require.Equal(t, fault.Forbidden, fault.KindOf(err), "%v", err)
	err = write(dataset.TableWrite{Like: "rest.ml.impressions@main"}, access.WriteSources{LikeRights: rights})
	require.Equal(t, fault.Forbidden, fault.KindOf(err), "%v", err)
	err = write(dataset.TableWrite{Like: "rest.ml.none@main"}, access.WriteSources{LikeRights: rights})
	require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
}
