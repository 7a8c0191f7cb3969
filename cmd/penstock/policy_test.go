package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// policyPage returns the example policy of docs/policy.md.
func policyPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/policy.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(page), "```yaml\n")
	require.True(t, found)
	block, _, found = strings.Cut(block, "```")
	require.True(t, found)
	return block
}

// policyFile writes a policy, and returns its path.
func policyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// inlineHome is a query with an inline dataset, which the client defines.
const inlineHome = `{"dataset": {"training": {"table": "ml.impressions"}}, "columns": ["request_id"]}`

// TestClientsGetWhatThePolicyAllows checks the answers to requests of several clients. The server
// has the policy of docs/policy.md, static tokens, and an issuer that rotates its keys.
//
// spec: access-11, access-12, access-13, access-14, access-15, access-18
func TestClientsGetWhatThePolicyAllows(t *testing.T) {
	var of provider
	of.rotate(t, "1", 2)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(of.served()) }))
	defer web.Close()
	file := filepath.Join(t.TempDir(), "server.tokens")
	ranker, other := issued(t, file, "ranker"), issued(t, file, "other")
	server := start(t, "--config", readLake(t).config, "--tokens", file, "--policy", policyFile(t, policyPage(t)),
		"--jwt-issuer", "https://issuer.example.com", "--jwt-audience", "penstock", "--jwt-keys", web.URL)
	platform := of.tokenWith(t, "someone", "penstock", map[string]any{"team": []string{"search", "platform"}})
	sweep, stranger := of.token(t, "sweep-17", "penstock"), of.tokenWith(t, "someone", "penstock", map[string]any{"team": "platforms"})
	cat, explain, verify := []string{"cat", "home"}, []string{"explain", "home"}, []string{"verify", "home"}
	inline, cache := []string{"cat", "--query", inlineHome}, []string{"cache", "ls"}
	email := []string{"cat", "home", "--columns", "item"}
	table := []struct {
		who, token string
		asks       []string
		says       string // part of the error; "" means success
	}{
		{"a static token of a group", ranker, cat, ""},
		{"a static token of a group", ranker, []string{"cat", "large"}, "there is no dataset \"large\"\n  → use one of: home\n"},
		{"a static token of a group", ranker, []string{"cat", "nothing"}, "there is no dataset \"nothing\"\n  → use one of: home\n"},
		{"a static token of a group", ranker, email, `the dataset has no column "item"`},
		{"a static token of a group", ranker, []string{"cat", "home", "--columns", "itme"}, `the dataset has no column "itme"`},
		{"a static token of a group", ranker, []string{"cat", "home", "--filter", "item = 'plain'"}, `unknown column "item"`},
		{"a static token of a group", ranker, inline, "may not send a dataset of these tables"},
		{"a static token of a group", ranker, explain, "may not call explain"},
		{"a static token of a group", ranker, verify, "may not call verify"},
		{"a static token of a group", ranker, cache, "may not call cache"},
		{"a JWT of a group by pattern", sweep, cat, ""},
		{"a JWT of a group by pattern", sweep, email, `the dataset has no column "item"`},
		{"a static token without a rule", other, cat, `there is no dataset "home"`},
		{"a static token without a rule", other, inline, "may not send a dataset of these tables"},
		{"a static token without a rule", other, cache, "may not call cache"},
		{"a JWT with a claim", platform, cat, ""},
		{"a JWT with a claim", platform, email, ""},
		{"a JWT with a claim", platform, inline, ""},
		{"a JWT with a claim", platform, explain, ""},
		{"a JWT with a claim", platform, cache, ""},
		{"a JWT with another claim", stranger, cat, `there is no dataset "home"`},
		{"a JWT with another claim", stranger, verify, "may not call verify"},
	}
	ask := func(token string, command []string) ran {
		return run(t, append(command, "--uri", server.uri(), "--token-file", token)...)
	}
	for _, c := range table {
		got := ask(c.token, c.asks)
		if c.says == "" {
			require.Zero(t, got.code, "%s %v: %s", c.who, c.asks, got.stderr)
		} else {
			require.NotZero(t, got.code, "%s %v", c.who, c.asks)
			require.Contains(t, got.stderr, c.says, "%s %v", c.who, c.asks)
			require.NotContains(t, got.stderr, "did you mean", "%s %v", c.who, c.asks)
		}
	}
	few, all := ask(ranker, cat).stdout, ask(platform, cat).stdout
	require.NotContains(t, few, "plain")
	require.Contains(t, all, "plain")
	require.Less(t, strings.Count(few, "\n"), strings.Count(all, "\n"), "rows are withheld")
	require.NotContains(t, ask(ranker, []string{"datasets"}).stdout, "large")
	require.Contains(t, ask(platform, []string{"datasets"}).stdout, "large")

	of.rotate(t, "2", 1)
	later := of.tokenWith(t, "someone", "penstock", map[string]any{"team": []string{"platform"}})
	require.Eventually(t, func() bool { return ask(later, email).code == 0 }, time.Minute, 100*time.Millisecond)
	ranked := of.token(t, "ranker", "penstock")
	require.Contains(t, ask(ranked, email).stderr, `the dataset has no column "item"`, "the names of subjects are one set")
}

// A changed policy takes effect. A policy that is invalid or does not fit the tables changes
// nothing, and the error is logged with the line of the fault.
//
// spec: access-19
func TestPolicyIsLoadedAgain(t *testing.T) {
	path := policyFile(t, "rules:\n- subjects: [\"*\"]\n  read: [home]\n")
	server := start(t, "--config", readLake(t).config, "--policy", path)
	ask := func(columns string) ran { return run(t, "cat", "home", "--columns", columns, "--uri", server.uri()) }
	require.Zero(t, ask("item").code)
	for text, says := range map[string]string{
		"rules:\n- subjects: [\"*\"]\n  raed: [home]\n":                                                          "(line 3)",
		"rules:\n- subjects: [\"*\"]\n  tables:\n    ml.impressions: {withheld: [itme]}\n":                       `table ml.impressions has no column \"itme\" (line 4)`,
		"rules:\n- subjects: [\"*\"]\n  tables:\n    default.ml.impressions: {filter: \"item = 7\"}\n  read: []": "(line 5)",
		"rules:\n- subjects: [\"*\"]\n  tables:\n    ml.impressions: {filter: \"itme = 'a'\"}\n":                 "(line 4)",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		server.reload(t)
		require.Eventually(t, func() bool { return strings.Contains(server.stderr.String(), says) }, time.Minute, 50*time.Millisecond, text)
		require.Zero(t, ask("item").code, text)
		got := run(t, "serve", "--config", readLake(t).config, "--listen", "127.0.0.1:0", "--policy", path)
		require.Equal(t, exitFailure, got.code, text)
		require.Contains(t, got.stderr, strings.ReplaceAll(says, `\"`, `"`), text)
	}
	require.NoError(t, os.WriteFile(path, []byte("rules:\n- subjects: [\"*\"]\n  read: [home]\n  tables: {ml.impressions: {withheld: [item]}}\n"), 0o600))
	server.reload(t)
	require.Eventually(t, func() bool { return strings.Contains(ask("item").stderr, `the dataset has no column "item"`) }, time.Minute, 50*time.Millisecond)
	require.Zero(t, ask("label").code)
}

// Dataset names in the policy that match no dataset are logged at the start, after a change of the
// policy, and after a change of the config file.
func TestNamesOfThePolicyThatMatchNoDataset(t *testing.T) {
	const unmatched = "the policy names datasets that the server does not have"
	l := readLake(t)
	text := string(must(os.ReadFile(l.config)))
	config := filepath.Join(t.TempDir(), "penstock.yaml")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(config, strings.Replace(text, "sqlite:///catalog.db", "sqlite:///"+filepath.Join(l.dir, "catalog.db"), 1))
	path := policyFile(t, "rules:\n- subjects: [\"*\"]\n  read: [home, hmoe, \"*\"]\n")
	server := start(t, "--config", config, "--policy", path, "--log-level", "debug")
	require.Equal(t, []any{"hmoe"}, server.stderr.find(t, unmatched)["read"])

	server.stderr.forget()
	write(path, "rules:\n- subjects: [\"*\"]\n  read: [home, \"gone*\"]\n")
	server.reload(t)
	server.stderr.wait(t, "", "the datasets that the policy names")
	require.NotContains(t, server.stderr.String(), unmatched)

	write(config, strings.ReplaceAll(string(must(os.ReadFile(config))), "  gone:", "  went:"))
	server.reload(t)
	require.Equal(t, []any{"gone*"}, server.stderr.find(t, unmatched)["read"])
}

// Without a policy, clients may send datasets only to a server on the loopback or a socket that
// needs no credentials.
//
// spec: access-13
func TestDatasetsOfClientsWithoutAPolicy(t *testing.T) {
	plain := start(t, "--config", readLake(t).config)
	require.Zero(t, run(t, "cat", "--query", inlineHome, "--uri", plain.uri()).code)
	file := filepath.Join(t.TempDir(), "server.tokens")
	token := issued(t, file, "trainers")
	secured := start(t, "--config", readLake(t).config, "--tokens", file)
	got := run(t, "cat", "--query", inlineHome, "--uri", secured.uri(), "--token-file", token)
	require.Contains(t, got.stderr, "may not send a dataset of these tables")
	require.Zero(t, run(t, "cat", "home", "--uri", secured.uri(), "--token-file", token).code)
	keys := filepath.Join(t.TempDir(), "tickets.keys")
	require.NoError(t, os.WriteFile(keys, []byte("k1 MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"), 0o600))
	open := start(t, "--config", readLake(t).config, "--listen", "0.0.0.0:0", "--insecure", "--ticket-keys", keys)
	got = run(t, "cat", "--query", inlineHome, "--uri", strings.Replace(open.uri(), "0.0.0.0", "127.0.0.1", 1))
	require.Contains(t, got.stderr, "may not send a dataset of these tables")
}

// A renamed column is withheld under both names, because a client can choose a snapshot with the
// old schema.
//
// spec: access-14
func TestRenamedColumnIsWithheldUnderAllItsNames(t *testing.T) {
	l := newLake(t, t.TempDir())
	c, done := openCatalogOf(t, l.dir)
	defer done()
	table, err := c.LoadTable(t.Context(), icetable.Identifier{"ml", "impressions"})
	require.NoError(t, err)
	before := table.CurrentSnapshot().SnapshotID
	change := table.NewTransaction()
	require.NoError(t, change.UpdateSchema(true, false).RenameColumn([]string{"item"}, "title").Commit())
	_, err = change.Commit(t.Context())
	require.NoError(t, err)
	old := fmt.Sprintf(`{"dataset": "home", "columns": ["item"], "snapshots": {"training": {"snapshot": %d}}}`, before)
	now := `{"dataset": "home", "columns": ["title"]}`
	for withheld, of := range map[string]string{"title": "home", "item": "home", "label": ""} {
		server := start(t, "--config", l.config, "--policy", policyFile(t, fmt.Sprintf(
			"rules: [{subjects: [\"*\"], read: [home], tables: {ml.impressions: {withheld: [%s]}}}]", withheld)))
		for name, query := range map[string]string{"item": old, "title": now} {
			got := run(t, "cat", "--query", query, "--uri", server.uri())
			if of == "" {
				require.Zero(t, got.code, got.stderr)
			} else {
				require.Contains(t, got.stderr, fmt.Sprintf("the dataset has no column %q", name), withheld)
			}
		}
	}
}
