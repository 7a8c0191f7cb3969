package icebergcat_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// jarsEnv names the folder of Iceberg's own REST catalog; make test-spark sets it.
const jarsEnv = "PENSTOCK_REST_JARS"

// startJava serves a writer's catalog file by Iceberg's own REST server.
func startJava(t *testing.T, jars string, w *icebergtest.Writer) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	require.NoError(t, l.Close())
	c := exec.CommandContext(context.WithoutCancel(t.Context()), "java", "-Xmx256m", "-cp", filepath.Join(jars, "*"), "org.apache.iceberg.rest.RESTCatalogServer")
	c.Env = append(os.Environ(),
		"CATALOG_CATALOG__IMPL=org.apache.iceberg.jdbc.JdbcCatalog", "CATALOG_URI=jdbc:sqlite:"+filepath.Join(w.Dir, "catalog.db"),
		"CATALOG_WAREHOUSE=file://"+w.Dir, "CATALOG_JDBC_SCHEMA__VERSION=V1", "CATALOG_REST_PORT="+port,
		"CATALOG_CATALOG_NAME=default", "CATALOG_CLIENTS=1")
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, c.Start())
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
	})
	uri := "http://127.0.0.1:" + port
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, uri+"/v1/config", nil)
		require.NoError(t, err)
		got, err := client.Do(r)
		if err != nil {
			return false
		}
		_ = got.Body.Close()
		return got.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "the server does not answer")
	return uri
}

// The reference implementation of the specification accepts tags.
func TestJavaRESTTakesTags(t *testing.T) {
	jars := os.Getenv(jarsEnv)
	if jars == "" {
		t.Skip(jarsEnv + " names no folder of Iceberg's REST server; make test-spark sets it")
	}
	w := icebergtest.NewWriter(t)
	uri := startJava(t, jars, w)
	c, err := icebergcat.Open(t.Context(), icebergcat.Options{Name: "lake", Type: "rest", URI: uri, Store: store.Local{}, Clock: time.Now, AllowedPrefixes: icebergtest.Anywhere()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	pinned := w.Pinned(t, c, 2)
	wanted := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for range 2 {
		ends, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
		require.NoError(t, err)
		require.True(t, ends.Equal(wanted))
	}
	later := wanted.Add(time.Hour)
	_, err = c.Tag(t.Context(), pinned, icebergtest.Until(later, later))
	require.NoError(t, err)
	require.Equal(t, map[int64]time.Duration{pinned.Pin.Snapshot: later.Sub(w.Committed(t, pinned.Pin.Snapshot))}, w.TagAges(t))
}

// The reference implementation of the specification returns the same tables as the catalog
// behind it.
func TestJavaRESTConforms(t *testing.T) {
	jars := os.Getenv(jarsEnv)
	if jars == "" {
		t.Skip(jarsEnv + " names no folder of Iceberg's REST server; make test-spark sets it")
	}
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		w := icebergtest.NewWriter(t)
		uri := startJava(t, jars, w)
		c, err := icebergcat.Open(t.Context(), icebergcat.Options{Name: "lake", Type: "rest", URI: uri, Store: store.Local{}, Clock: time.Now, AllowedPrefixes: icebergtest.Anywhere()})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return w.Rig(c)
	})
}
