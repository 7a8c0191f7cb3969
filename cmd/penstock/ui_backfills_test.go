package main

import (
	"html"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A viewer who may neither write to a table nor explain it sees no branch of it, and counts and verifies nothing.
//
// spec: ui-4, ui-8
func TestViewersWithoutRightsSeeNoBackfills(t *testing.T) {
	l, _ := stagedHistory(t)
	server := changingServer(t, l, "publish")
	base := strings.TrimSuffix(startUI(t, "--uri", server.uri(), "--behind-proxy", "penstock.example.com"), "/")
	writer, reader := viewerOf(t, base, server.writer), viewerOf(t, base, server.reader)
	_, page := writer.get(t, "/backfills")
	require.Contains(t, page, "/backfills/features.history?branch=candidate")
	status, page := reader.get(t, "/backfills")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "No table that you may read has a branch")
	require.NotContains(t, page, "candidate")
	for _, path := range []string{"/backfills/features.history?branch=candidate", "/backfills/features.history/verify?branch=candidate&dataset=home"} {
		status, page = reader.get(t, path)
		require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, status, path)
		require.NotContains(t, page, "candidate", path)
	}
	status, page = writer.get(t, "/backfills/features.history?branch=candidate&dataset=home")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "may not call explain", "the writer may not")
	require.Contains(t, page, "can be published")
}

// The page of a new backfill has what penstock init backfill prints. It needs the right explain for all of the dataset, and does not say whether
// a table exists that the viewer may not see.
//
// spec: backfill-14, backfill-15, ui-17
func TestNewBackfillsNeedTheRightToExplain(t *testing.T) {
	l := readLake(t)
	tokens := filepath.Join(t.TempDir(), "server.tokens")
	full, narrow, reader := issued(t, tokens, "full"), issued(t, tokens, "narrow"), issued(t, tokens, "reader")
	server := start(t, "--config", l.config, "--memory", "256MiB", "--tokens", tokens, "--policy", policyFile(t, `
rules:
- {subjects: [full], read: ["*"], allow: [explain], inline: ["*"]}
- {subjects: [narrow], read: [home], allow: [explain]}
- {subjects: [reader], read: [home]}
`))
	base := strings.TrimSuffix(startUI(t, "--uri", server.uri(), "--behind-proxy", "penstock.example.com"), "/")
	ask := func(token, table string) string {
		q := url.Values{"dataset": {"home"}, "table": {table}, "columns": {"v:int"}}
		_, page := viewerOf(t, base, token).get(t, "/backfills/new?"+q.Encode())
		return html.UnescapeString(page)
	}
	printed := func(what string) string {
		got := run(t, "init", "backfill", "home", "--config", l.config, "--table", "features.v", "--column", "v:int", "--print", what)
		require.Zero(t, got.code, got.stderr)
		return got.stdout
	}
	for _, token := range []string{full, narrow} {
		page := ask(token, "features.v")
		require.Contains(t, page, printed("sql"))
		require.Contains(t, page, printed("yaml"))
	}
	require.Contains(t, ask(reader, "features.v"), "allow: [explain]")
	require.Contains(t, ask(full, "ml.large"), "table ml.large already exists")
	require.Contains(t, ask(narrow, "features.history"), "table features.history already exists")
	require.NotContains(t, ask(narrow, "ml.large"), "already exists")
	require.Contains(t, ask(narrow, "v"), "has no namespace")
}
