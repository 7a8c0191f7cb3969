package main

import (
	"net/http"
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
