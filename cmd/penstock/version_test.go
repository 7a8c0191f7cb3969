package main

import (
	"os"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The flag and the command print the same.
func TestVersionFlagAndCommand(t *testing.T) {
	want := regexp.MustCompile(`^penstock 0\.1\.0\nmodule   \S+\nrevision \S+(, modified)?\ngo       ` + regexp.QuoteMeta(runtime.Version()) + ` \S+/\S+\n$`)
	for _, arg := range []string{"version", "--version"} {
		got := run(t, arg)
		require.Zero(t, got.code, got.stderr)
		require.Regexp(t, want, got.stdout)
		require.Empty(t, got.stderr)
	}
}

func TestPythonHasTheSameVersion(t *testing.T) {
	text, err := os.ReadFile("../../python/src/penstock/version.py")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^__version__ = "(.*)"$`).FindSubmatch(text)
	require.Len(t, found, 2)
	require.Equal(t, treeVersion, string(found[1]))
}

func TestVersionText(t *testing.T) {
	const commit = "e021464a1b2c3d4e5f60718293a4b5c6d7e8f901"
	for want, b := range map[string]buildInfo{
		"0.1.0":                       {},
		"0.1.0+e021464a1b2c":          {module: "v0.1.0", revision: commit},
		"0.1.0+e021464a1b2c.modified": {revision: commit, modified: true},
		"0.1.0+abc":                   {revision: "abc"},
	} {
		require.Equal(t, want, b.version())
	}
	require.Contains(t, buildInfo{module: "v0.1.0", revision: commit, modified: true}.text(), "penstock 0.1.0\nmodule   v0.1.0\nrevision "+commit+", modified\ngo ")
	require.Contains(t, buildInfo{}.text(), "module   unknown\nrevision unknown\n")
}
