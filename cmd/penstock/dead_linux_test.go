package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a mount no longer answers, the server reports an error for its files, serves all other files,
// and shuts down cleanly.
func TestServerSurvivesADeadMount(t *testing.T) {
	for _, c := range []struct{ name, folder string }{
		{"staging files", "features.db/history/data"},
		{"the catalog", "catalog"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLake(t, t.TempDir())
			require.NoError(t, os.Mkdir(filepath.Join(l.dir, "catalog"), 0o700))
			require.NoError(t, os.Rename(filepath.Join(l.dir, "catalog.db"), filepath.Join(l.dir, "catalog", "catalog.db")))
			l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog/catalog.db"}
datasets:
  home:
    training: {table: ml.impressions}
    key: [request_id]
    staging:
      - {table: features.history, key: {request_id: req_id}}
  alone:
    training: {table: ml.impressions}
    key: [request_id]
`)
			mount := mountOver(t, filepath.Join(l.dir, c.folder))
			server := start(t, "--config", l.config, "--storage-timeout", "1s", "--cache-memory", "0")
			require.Zero(t, run(t, "cat", "home", "--uri", server.uri()).code, server.stderr)
			mount.stop(t)
			for range 2 {
				got := run(t, "cat", "home", "--uri", server.uri())
				require.Equal(t, exitFailure, got.code)
				require.Contains(t, got.stderr, "storage did not ")
				require.Contains(t, got.stderr, "within 1s")
				require.Contains(t, got.stderr, filepath.Join(l.dir, c.folder))
				require.Contains(t, got.stderr, "storage_timeout")
			}
			if c.folder != "catalog" {
				require.Zero(t, run(t, "cat", "alone", "--uri", server.uri()).code, server.stderr)
			}
			healthy(t, server)
			server.signal(t)
			code, _ := server.wait(t)
			require.Zero(t, code, server.stderr)
			require.Equal(t, true, server.stderr.find(t, "shut down")["clean"])
		})
	}
}
