package main

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/audit"
)

// viewer is a person who uses pages behind a proxy.
type viewer struct{ base, token string }

// viewerOf returns a viewer whose token is in a file.
func viewerOf(t *testing.T, base, file string) viewer {
	t.Helper()
	token, err := os.ReadFile(file)
	require.NoError(t, err)
	return viewer{base, strings.TrimSpace(string(token))}
}

// as adds the headers of the proxy and of the browser to a request.
func (v viewer) as(r *http.Request) {
	r.Host = "penstock.example.com"
	r.Header.Set("Authorization", "Bearer "+v.token)
}

// get returns a page.
func (v viewer) get(t *testing.T, path string) (status int, page string) {
	t.Helper()
	return browse(t, &http.Client{}, v.base+path, v.as)
}

// post sends a form, and returns the address to which the browser is sent, or the page with the error.
func (v viewer) post(t *testing.T, action string, fields url.Values) (status int, next, page string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.base+action, strings.NewReader(fields.Encode()))
	require.NoError(t, err)
	v.as(r)
	r.Header.Set("Origin", "https://penstock.example.com")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, answer.Header.Get("Location"), string(body)
}

// formOn returns the form of a page.
func formOn(t *testing.T, page string) (action string, fields url.Values) {
	t.Helper()
	found := regexp.MustCompile(`<form method="post" action="([^"]*)">`).FindStringSubmatch(page)
	require.NotNil(t, found, page)
	fields = url.Values{}
	for _, one := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		fields.Add(one[1], html.UnescapeString(one[2]))
	}
	return found[1], fields
}

// A viewer publishes a branch and takes it back by the pages, with the own rights, and the audit log names the viewer.
//
// spec: ui-21, ui-22, ui-24
func TestViewersChangeTablesByPages(t *testing.T) {
	l, _ := stagedHistory(t)
	server := changingServer(t, l, "publish")
	base := strings.TrimSuffix(startUI(t, "--uri", server.uri(), "--behind-proxy", "penstock.example.com"), "/")
	writer, reader := viewerOf(t, base, server.writer), viewerOf(t, base, server.reader)
	const path = "/publish/features.history?branch=candidate"
	before := len(server.lines(t))
	status, page := reader.get(t, path)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, page, "allow: [publish]")
	require.NotContains(t, page, "<form")
	status, page = writer.get(t, path)
	require.Equal(t, http.StatusOK, status, page)
	require.Contains(t, page, "penstock publish features.history candidate --from ")
	action, fields := formOn(t, page)
	status, _, _ = reader.post(t, action, fields)
	require.Equal(t, http.StatusForbidden, status, "a form is that of one viewer")
	var next string
	for range 2 {
		status, next, page = writer.post(t, action, fields)
		require.Equal(t, http.StatusSeeOther, status, page)
	}
	_, page = writer.get(t, next)
	require.Contains(t, page, "is at snapshot "+fields.Get("to")+".")
	require.Equal(t, fields.Get("to"), strconv.FormatInt(loggedBy(t, "--config", l.config).Snapshots[0].Snapshot, 10))
	stale := fields

	_, page = writer.get(t, "/undo/features.history")
	action, fields = formOn(t, page)
	require.Equal(t, []string{stale.Get("from"), stale.Get("to")}, []string{fields.Get("from"), fields.Get("to")})
	status, next, page = writer.post(t, action, fields)
	require.Equal(t, http.StatusSeeOther, status, page)
	_, page = writer.get(t, next)
	require.Contains(t, page, "is at snapshot "+fields.Get("from")+".")
	require.Equal(t, fields.Get("from"), strconv.FormatInt(loggedBy(t, "--config", l.config).Snapshots[0].Snapshot, 10))

	var events []string
	for _, line := range server.lines(t)[before:] {
		events = append(events, string(line.Event)+" "+line.Subject)
	}
	require.Equal(t, []string{
		string(audit.Refusal) + " reader", string(audit.Publish) + " writer", string(audit.Publish) + " writer", string(audit.Undo) + " writer",
	}, events)

	// Others commit after a page was loaded: nothing is published.
	_, page = writer.get(t, path)
	action, fields = formOn(t, page)
	more := l.parquetFile(t, "more.parquet", `[{"req_id": 77, "country": "CH"}]`)
	got := run(t, "stage", "features.history", more, "--branch", "candidate", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	status, _, page = writer.post(t, action, fields)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, page, "table features.history has moved: branch candidate is at snapshot ")
	require.Equal(t, fields.Get("from"), strconv.FormatInt(loggedBy(t, "--config", l.config).Snapshots[0].Snapshot, 10))
}

// The memory of promotions is a size, and is for pages that start promotions.
func TestMemoryOfPromotions(t *testing.T) {
	config := readLake(t).config
	for text, args := range map[string][]string{
		`--child-memory "much" is not a size, such as 4GiB`: {"--config", config, "--child-memory", "much"},
		"--child-memory is for stages and":                  {"--uri", "grpc://127.0.0.1:1", "--child-memory", "1GiB"},
	} {
		got := run(t, append([]string{"ui"}, args...)...)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.stderr, text)
	}
}

// A viewer sees the dry run of a promotion and takes promoted columns back, with the right promote, and the audit log names the viewer.
//
// spec: ui-24, ui-25, ui-27
func TestViewersTakePromotionsBackByPages(t *testing.T) {
	l := stagingLake(t)
	l.config = l.file(t, "promoted.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  home: {training: {table: features.history}, key: [req_id], staging: [{table: features.origin, name: origin, prefix: origin_}]}
`)
	for _, table := range []string{"features.history", "features.origin"} {
		file := l.parquetFile(t, table+".parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
		got := run(t, "stage", table, file, "--key", "req_id", "--buckets", "1", "--config", l.config)
		require.Zero(t, got.code, got.stderr)
	}
	server := changingServer(t, l, "promote")
	base := strings.TrimSuffix(startUI(t, "--uri", server.uri(), "--behind-proxy", "penstock.example.com"), "/")
	writer, reader := viewerOf(t, base, server.writer), viewerOf(t, base, server.reader)
	const path = "/promotions/home?entry=origin"
	status, page := reader.get(t, path)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, page, "allow: [promote]")
	status, page = writer.get(t, path)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "penstock promote home origin --uri grpc://")
	require.NotContains(t, page, `<form method="post"`, "a server's pages start no promotion")
	require.Zero(t, run(t, "promote", "home", "origin", "--config", l.config).code)

	_, page = writer.get(t, path)
	require.Contains(t, page, "has the columns")
	const demote = "/demote/features.history?column=origin_country"
	status, _ = reader.get(t, demote)
	require.Equal(t, http.StatusForbidden, status)
	_, page = writer.get(t, demote)
	action, fields := formOn(t, page)
	before := len(server.lines(t))
	for range 2 {
		status, next, page := writer.post(t, action, fields)
		require.Equal(t, http.StatusSeeOther, status, page)
		_, page = writer.get(t, next)
		require.Contains(t, page, "has no promoted columns")
	}
	rows := run(t, "cat", "--query", `{"dataset": {"training": {"table": "features.history"}}}`, "--config", l.config, "--format", "csv")
	require.NotContains(t, rows.stdout, "origin_country")
	for _, line := range server.lines(t)[before:] {
		require.Equal(t, []string{string(audit.Demote), "writer"}, []string{string(line.Event), line.Subject})
	}
}
