package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// hanging is a server whose catalog does not answer for one table.
type hanging struct {
	*child
	config, text string        // path and content of its config file, which has the dataset home
	asked        chan struct{} // closed at the first request for the table
	release      func()        // lets the catalog answer
}

// startHanging starts a server of the lake's tables. The catalog does not answer for one table,
// which no dataset uses yet.
func startHanging(t *testing.T, table string, flags ...string) *hanging {
	t.Helper()
	s := readLake(t).serveREST(t)
	h := &hanging{asked: make(chan struct{})}
	h.text = "catalogs:\n  default: {type: rest, uri: '" + s.URL + "', warehouse: prod, token: given}\ndatasets:\n  home: {training: {table: ml.impressions}}\n"
	h.config = lake{dir: t.TempDir()}.file(t, "penstock.yaml", h.text+"  more: {training: {table: ml.impressions}}\n")
	answer, ask := make(chan struct{}), sync.OnceFunc(func() { close(h.asked) })
	h.release = sync.OnceFunc(func() { close(answer) })
	t.Cleanup(h.release) // before the catalog is closed
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/"+table) {
				ask()
				<-answer
			}
			return false
		}
	})
	h.child = start(t, append([]string{"--config", h.config}, flags...)...)
	return h
}

// reload writes files, makes the server load all its files, and returns the log from then until it
// mentions a group of files.
func (h *hanging) reload(t *testing.T, files map[string]string, what string) string {
	t.Helper()
	before := h.stderr.String()
	for file, text := range files {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	require.NoError(t, h.command.Process.Signal(syscall.SIGHUP))
	return h.stderr.wait(t, before, `"what":"`+what+`"`)
}

// TestTokensDoNotWaitForACatalog checks that a deleted token is refused even while a changed config
// file waits for a catalog that does not answer. The config file is used once the catalog answers.
//
// spec: access-7
func TestTokensDoNotWaitForACatalog(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "server.tokens"), filepath.Join(dir, "other.tokens")
	deleted, kept := issued(t, file, "deleted"), issued(t, other, "kept")
	h := startHanging(t, "large", "--tokens", file)
	ask := func(token string) ran { return run(t, "datasets", "--uri", h.uri(), "--token-file", token) }
	require.Zero(t, ask(deleted).code)
	h.reload(t, map[string]string{h.config: h.text + "  large: {training: {table: ml.large}}\n"}, "the tokens")
	<-h.asked
	said := h.reload(t, map[string]string{file: string(must(os.ReadFile(other)))}, "the tokens")
	require.NotContains(t, said, `"what":"the configuration"`)
	require.Contains(t, ask(deleted).stderr, "token")
	h.release()
	h.stderr.find(t, "datasets changed")
	require.Contains(t, ask(kept).stdout, "large")
}

// TestConfigFileIsLoadedAfterItsPolicy checks that if the config file and the policy change
// together, the policy is used first, even if it waits for a catalog that does not answer.
//
// spec: access-19
func TestConfigFileIsLoadedAfterItsPolicy(t *testing.T) {
	dir := t.TempDir()
	file, policy := filepath.Join(dir, "server.tokens"), filepath.Join(dir, "policy.yaml")
	token := issued(t, file, "trainers")
	const rules = "rules:\n- subjects: [\"*\"]\n  read: [\"*\"]\n"
	require.NoError(t, os.WriteFile(policy, []byte(rules), 0o600))
	h := startHanging(t, "large", "--tokens", file, "--policy", policy)
	h.stderr.find(t, "penstock serves")
	before := h.stderr.String()
	h.reload(t, map[string]string{policy: rules + "  tables: {ml.large: {filter: \"true\"}}\n", h.config: h.text}, "the tokens")
	<-h.asked
	require.NotContains(t, h.reload(t, nil, "the tokens"), `"what":"the configuration"`)
	h.release()
	said := h.stderr.wait(t, before, `"what":"the configuration"`)
	first, _, _ := strings.Cut(said, `"what":"the configuration"`)
	require.Contains(t, first, `"msg":"`+inUse+`","what":"the policy"`)
	require.NotContains(t, run(t, "datasets", "--uri", h.uri(), "--token-file", token).stdout, "more")
}
