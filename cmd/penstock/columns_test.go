package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// columnServer is a server that keeps decoded columns in a folder.
type columnServer struct {
	*child
	t       *testing.T
	metrics string
}

func startWithColumns(t *testing.T, config, folder string, more ...string) columnServer {
	t.Helper()
	c := start(t, append([]string{"--config", config, "--cache-dir", folder, "--metrics", "127.0.0.1:0"}, more...)...)
	return columnServer{c, t, c.stderr.find(t, "metrics")["listen"].(string)}
}

// stop ends the server once no column waits to be written. A server that shuts down writes columns
// only for a short time, and drops the rest.
func (s columnServer) stop() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		page := scrape(s.t, s.metrics)
		return !strings.Contains(page, "penstock_disk_cache") || strings.Contains(page, "penstock_disk_cache_queued_bytes 0\n")
	}, time.Minute, 20*time.Millisecond)
	s.signal(s.t)
	code, _ := s.wait(s.t)
	require.Zero(s.t, code, s.stderr)
}

// read returns all rows as a client receives them.
func (s columnServer) read() string {
	s.t.Helper()
	got := run(s.t, "cat", "-q", `{"dataset": "home", "cache": "fill"}`, "--uri", s.uri(), "--format", "jsonl")
	require.Zero(s.t, got.code, got.stderr)
	return got.stdout
}

// chunks returns the column files in a folder.
func chunks(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.chunk"))
	require.NoError(t, err)
	return found
}

// TestColumnsAreReadFromDiskAfterARestart checks that a server returns the same rows when it
// decodes files, when it reads the columns on disk, and when those are damaged. Damaged files are
// deleted and written again.
//
// spec: disk-1, disk-3
func TestColumnsAreReadFromDiskAfterARestart(t *testing.T) {
	config, folder := readLake(t).config, filepath.Join(t.TempDir(), "columns")
	plain := start(t, "--config", config)
	want := columnServer{plain, t, ""}.read()
	first := startWithColumns(t, config, folder)
	require.Equal(t, want, first.read())
	first.stop()
	written := chunks(t, folder)
	require.NotEmpty(t, written)

	second := startWithColumns(t, config, folder)
	require.Equal(t, want, second.read())
	page := scrape(t, second.metrics)
	require.Regexp(t, `penstock_disk_cache_reads_total\{result="hit"\} [1-9]`, page)
	require.Contains(t, page, `penstock_disk_cache_writes_total{result="written"} 0`)
	second.stop()

	for _, path := range written {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		content[len(content)-1] ^= 1
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	third := startWithColumns(t, config, folder)
	require.Equal(t, want, third.read())
	require.Regexp(t, `penstock_disk_cache_reads_total\{result="damaged"\} [1-9]`, scrape(t, third.metrics))
	onDisk := listed(t, third.uri()).Disk
	require.Positive(t, onDisk.Columns)
	require.Contains(t, run(t, "cache", "ls", "--uri", third.uri()).stdout, "on disk: ")
	third.stop()
	require.Len(t, chunks(t, folder), len(written), "those that were damaged are written again")

	fourth := startWithColumns(t, config, folder)
	require.Equal(t, exitOK, run(t, "cache", "drop", "--uri", fourth.uri()).code)
	require.Empty(t, chunks(t, folder))
	require.Equal(t, want, fourth.read())
	fourth.stop()
}

// TestServersDoNotShareAFolder checks that a second server runs without the folder, and that a
// folder open to other users is refused.
//
// spec: disk-4
func TestServersDoNotShareAFolder(t *testing.T) {
	config, folder := readLake(t).config, filepath.Join(t.TempDir(), "columns")
	first := startWithColumns(t, config, folder)
	second := startWithColumns(t, config, folder)
	require.Contains(t, second.stderr.find(t, "decoded columns are not kept on disk")["error"], "is in use by another process")
	require.Equal(t, first.read(), second.read())
	require.NotContains(t, scrape(t, second.metrics), "penstock_disk_cache")
	first.stop()
	second.stop()

	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o755))
	got := run(t, "serve", "--config", config, "--listen", "127.0.0.1:0", "--cache-dir", open)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "other users could read or replace its files")
}

// TestTablesAreDroppedOnDisk checks that the columns of a table on disk can be dropped by name or
// uuid after a restart, when no table is known in memory. The columns of other tables stay, even
// after another restart.
//
// spec: cache-7, disk-8
func TestTablesAreDroppedOnDisk(t *testing.T) {
	l, folder := readLake(t), filepath.Join(t.TempDir(), "columns")
	first := startWithColumns(t, l.config, folder)
	want := first.read()
	first.stop()
	all := len(chunks(t, folder))
	// drop drops the columns of a table, and returns how many files were deleted from the folder.
	drop := func(s columnServer, table string) int {
		t.Helper()
		before := len(chunks(t, folder))
		dropped := run(t, "cache", "drop", table, "--uri", s.uri())
		require.Zero(t, dropped.code, dropped.stderr)
		gone := before - len(chunks(t, folder))
		require.Contains(t, dropped.stdout, fmt.Sprintf("dropped %d columns ", gone))
		return gone
	}

	second := startWithColumns(t, l.config, folder)
	gone := drop(second, "features.history")
	require.Positive(t, gone)
	require.Less(t, gone, all)
	second.stop()

	third := startWithColumns(t, l.config, folder)
	require.Len(t, chunks(t, folder), all-gone)
	unknown := run(t, "cache", "drop", "features.none", "--uri", third.uri())
	require.NotZero(t, unknown.code)
	require.Contains(t, unknown.stderr, "features.none")
	require.Len(t, chunks(t, folder), all-gone)
	require.Equal(t, all-gone, drop(third, tableUUID(t, l, "ml", "impressions")))
	require.Equal(t, want, third.read())
	require.Zero(t, run(t, "cache", "drop", "features.history", "--uri", third.uri()).code)
	require.Equal(t, want, third.read())
	third.stop()
}

// tableUUID returns the uuid of a table of a lake.
func tableUUID(t *testing.T, l lake, name ...string) string {
	t.Helper()
	c, done := openCatalogOf(t, l.dir)
	defer done()
	table, err := c.LoadTable(t.Context(), name)
	require.NoError(t, err)
	return table.Metadata().TableUUID().String()
}
