package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// TestOtherNamesOfALimitedTable: a REST catalog that takes table@ref in the name of a table, as Nessie's does, has several names
// for one table. A client that names it otherwise than the policy does gets none of it.
//
// spec: access-14
func TestOtherNamesOfALimitedTable(t *testing.T) {
	l := readLake(t)
	s := l.serveREST(t)
	under := s.Tables
	s.Tables = func(namespace []string, name string) (restcattest.Table, bool) {
		name, _, _ = strings.Cut(name, "@")
		return under(namespace, name)
	}
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
