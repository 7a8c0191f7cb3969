package main

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight"
)

// listed returns the cache list of a server.
func listed(t *testing.T, uri string) (out flight.CacheList) {
	t.Helper()
	got := run(t, "cache", "ls", "--json", "--uri", uri)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	return out
}

// TestCache fills, lists, explains and drops the cache of a server. Queries return the same rows in
// every cache mode.
//
// spec: cache-1, cache-4, cache-7, cache-13
func TestCache(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config, "--share-batches", "0")
	cat := func(query string) string {
		t.Helper()
		got := run(t, "cat", "home", "--query", query, "--uri", server.uri())
		require.Equal(t, exitOK, got.code, got.stderr)
		return got.stdout
	}
	want := cat(`{"cache": "off"}`)
	require.NotEmpty(t, want)
	empty := listed(t, server.uri())
	require.Empty(t, empty.Files)
	require.Zero(t, empty.Bytes+empty.BuildSides.Count)
	require.Positive(t, empty.Limit)

	require.Equal(t, want, cat(`{}`))
	for _, f := range listed(t, server.uri()).Files {
		require.Equal(t, "features.history", f.Table, "other columns were read for the first time")
	}
	require.Equal(t, want, cat(`{"cache": "fill"}`))
	var filled flight.CacheList
	require.Eventually(t, func() bool { // a stream fills the cache until it ends, possibly after the last row
		filled = listed(t, server.uri())
		return slices.ContainsFunc(filled.Files, func(f flight.CachedFile) bool { return f.Table == "ml.impressions" })
	}, time.Minute, time.Millisecond)
	require.Positive(t, filled.BuildSides.Count)
	for _, f := range filled.Files {
		require.NotContains(t, f.File, l.dir, "a path is relative to its table")
		require.Positive(t, f.Columns)
		require.Zero(t, f.Hits)
	}
	require.Equal(t, want, cat(`{}`))
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(listed(t, server.uri()).Files, func(f flight.CachedFile) bool { return f.Hits > 0 })
	}, time.Minute, time.Millisecond)

	explained := run(t, "explain", "home", "--uri", server.uri())
	require.Contains(t, explained.stdout, "decoded columns in memory\n  ml.impressions: ")
	text := run(t, "cache", "ls", "--uri", server.uri())
	require.Contains(t, text.stdout, "ml.impressions")
	require.Contains(t, text.stdout, "build sides: ")

	dropped := run(t, "cache", "drop", "features.history", "--uri", server.uri())
	require.Equal(t, exitOK, dropped.code, dropped.stderr)
	require.Positive(t, listed(t, server.uri()).BuildSides.Count, "build sides are not of one table's columns")
	nothing := run(t, "cache", "drop", "", "--uri", server.uri())
	require.Equal(t, exitFailure, nothing.code)
	require.Contains(t, nothing.stderr, "the name of the table is empty")
	require.NotEmpty(t, listed(t, server.uri()).Files)
	require.Equal(t, exitOK, run(t, "cache", "drop", "--uri", server.uri()).code)
	after := listed(t, server.uri())
	require.Empty(t, after.Files)
	require.Zero(t, after.Bytes+after.BuildSides.Count)
	require.Equal(t, want, cat(`{}`))

	off := start(t, "--config", l.config, "--cache-memory", "0")
	require.Equal(t, want, run(t, "cat", "home", "--uri", off.uri()).stdout)
	require.NotEqual(t, exitOK, run(t, "cache", "ls", "--uri", off.uri()).code)
}
