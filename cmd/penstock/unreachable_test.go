package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// A server starts while a catalog does not answer. It becomes ready, serves the other catalogs, and serves this one once it answers.
//
// spec: catalog-39
func TestServersStartWithoutACatalog(t *testing.T) {
	l := readLake(t)
	s := l.serveREST(t)
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
	})
	config := lake{dir: t.TempDir()}.file(t, "penstock.yaml", `catalogs:
  default: {type: sql, uri: 'sqlite:///`+filepath.Join(l.dir, "catalog.db")+`'}
  remote: {type: rest, uri: '`+s.URL+`', warehouse: prod, token: given}
datasets:
  home: {training: {table: ml.impressions}}
  away: {training: {table: remote.ml.impressions}}
`)
	server := start(t, "--config", config, "--storage-timeout", "1s")
	said := server.stderr.find(t, "the catalog does not answer; its tables are unavailable until it does")
	require.Equal(t, "remote", said["catalog"])
	healthy := func() bool { return run(t, "health", "--uri", server.uri()).code == 0 }
	require.Eventually(t, healthy, time.Minute, 10*time.Millisecond, "it is ready once every catalog was tried")
	count := func(dataset string) ran { return run(t, "cat", dataset, "--uri", server.uri()) }
	home := count("home")
	require.Zero(t, home.code, home.stderr)
	away := count("away")
	require.NotZero(t, away.code)
	require.Contains(t, away.stderr, "ask for the configuration")
	listed := run(t, "datasets", "--uri", server.uri())
	require.Contains(t, listed.stdout, "away")

	// Commands that read without a server need the catalogs.
	alone := run(t, "cat", "home", "--config", config)
	require.NotZero(t, alone.code)
	require.Contains(t, alone.stderr, "open catalog remote")

	s.Change(func(s *restcattest.Server) { s.Fault = nil })
	reached := func() bool { away = count("away"); return away.code == 0 }
	require.Eventually(t, reached, time.Minute, 100*time.Millisecond, "it asks again")
	require.Equal(t, home.stdout, away.stdout)
}

// Catalogs are opened at the same time: the answer to each of these waits until both were asked.
func TestCatalogsAreOpenedTogether(t *testing.T) {
	l := readLake(t)
	at, err := url.Parse(l.serveREST(t).URL)
	require.NoError(t, err)
	behind := httputil.NewSingleHostReverseProxy(at)
	var asked atomic.Int32
	both := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			behind.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(front.Close)
	config := lake{dir: t.TempDir()}.file(t, "penstock.yaml", `catalogs:
  a: {type: rest, uri: '`+front.URL+`', warehouse: prod, token: given}
  b: {type: rest, uri: '`+front.URL+`', warehouse: prod, token: given}
datasets:
  home: {training: {table: a.ml.impressions}}
`)
	server := start(t, "--config", config)
	healthSoon(t, server.uri())
	require.Zero(t, run(t, "cat", "home", "--uri", server.uri()).code)
	require.NotContains(t, server.stderr.String(), "does not answer")
}
