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

// TestTokensDoNotWaitForACatalog checks that a token which is deleted is refused while a catalog, by which a changed config file
// is checked, does not answer; and that the config file is used once it does.
//
// spec: access-7
func TestTokensDoNotWaitForACatalog(t *testing.T) {
	s := readLake(t).serveREST(t)
	text := "catalogs:\n  default: {type: rest, uri: '" + s.URL + "', warehouse: prod, token: given}\ndatasets:\n  home: {training: {table: ml.impressions}}\n"
	config := lake{dir: t.TempDir()}.file(t, "penstock.yaml", text)
	file := filepath.Join(t.TempDir(), "server.tokens")
	deleted := issued(t, file, "deleted")
	other := filepath.Join(t.TempDir(), "other.tokens")
	kept := issued(t, other, "kept")
	others := string(must(os.ReadFile(other)))
	server := start(t, "--config", config, "--tokens", file)
	ask := func(token string) ran { return run(t, "datasets", "--uri", server.uri(), "--token-file", token) }
	require.Zero(t, ask(deleted).code)
	asked, answer := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	hang := sync.OnceFunc(func() { close(asked) })
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/large") {
				hang()
				<-answer
			}
			return false
		}
	})
	reload := func(file, text string) string {
		before := server.stderr.String()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, server.command.Process.Signal(syscall.SIGHUP))
		return server.stderr.wait(t, before, `"what":"the tokens"`)
	}
	reload(config, text+"  large: {training: {table: ml.large}}\n")
	<-asked
	said := reload(file, others)
	require.NotContains(t, said, `"what":"the configuration"`)
	require.Contains(t, ask(deleted).stderr, "token")
	release()
	server.stderr.find(t, "datasets changed")
	require.Contains(t, ask(kept).stdout, "large")
}
