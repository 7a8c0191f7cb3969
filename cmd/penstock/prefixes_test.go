package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllowedPrefixesOfTheFile checks that the block of a catalog limits the locations of files. A
// query that needs other files is forbidden before any of them is read.
//
// spec: storage-16, storage-17
func TestAllowedPrefixesOfTheFile(t *testing.T) {
	l := newLake(t, t.TempDir())
	for name, c := range map[string]struct {
		prefixes string
		refused  bool
	}{
		"the default":        {"", false},
		"the lake":           {fmt.Sprintf(", allowed_prefixes: [%q]", l.dir), false},
		"one text":           {fmt.Sprintf(", allowed_prefixes: %q", "file://"+l.dir), false},
		"the config's":       {`, allowed_prefixes: ["."]`, false},
		"another folder":     {fmt.Sprintf(", allowed_prefixes: [%q]", l.dir+"2"), true},
		"only other storage": {`, allowed_prefixes: ["s3://bucket"]`, true},
	} {
		config := l.file(t, "prefixes.yaml", fmt.Sprintf("catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\"%s}\n"+
			"datasets:\n  home: {training: {table: ml.impressions}, key: [request_id]}\n", c.prefixes))
		server := start(t, "--config", config)
		got := run(t, "cat", "home", "--uri", server.uri())
		if !c.refused {
			require.Zero(t, got.code, "%s: %s", name, got.stderr)
			continue
		}
		require.Equal(t, exitFailure, got.code, name)
		require.Contains(t, got.stderr, "of table ml.impressions is not under", name)
		require.Contains(t, got.stderr, "allowed_prefixes of the catalog's block", name)
	}
	for _, wrong := range []string{"[]", `[""]`, `["gs://b"]`, `[{a: b}]`, `["${PENSTOCK_TEST_NONE}"]`} {
		config := l.file(t, "wrong.yaml", fmt.Sprintf("catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\", allowed_prefixes: %s}\n", wrong))
		got := run(t, "serve", "--config", config)
		require.Equal(t, exitFailure, got.code, wrong)
		require.Contains(t, got.stderr, "allowed_prefixes", wrong)
	}
}
