package main

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// The flag --version and the command version print the same text.
func TestVersionFlagAndCommand(t *testing.T) {
	want := regexp.MustCompile(`^penstock 0\.1\.0\n(module   v\S+\n)?revision \S+(, modified)?\ngo       ` + regexp.QuoteMeta(runtime.Version()) + ` \S+/\S+\n$`)
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
	require.Contains(t, buildInfo{}.text(), "penstock 0.1.0\nrevision unknown\ngo ", "a release has no version of a module")
}

// The commit is the one that Go recorded. Otherwise it is the linked text, if that has the form of
// a commit.
func TestCommitOfABuild(t *testing.T) {
	const recorded, linked = "e021464a1b2c3d4e5f60718293a4b5c6d7e8f901", "0123456789abcdef0123456789abcdef01234567"
	stamped := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: recorded}, {Key: "vcs.modified", Value: "true"}}}
	require.Equal(t, buildInfo{revision: recorded, modified: true}, buildInfoOf(stamped, linked))
	plain := &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{{Key: "-ldflags", Value: "-X main.linkedCommit=" + linked}}}
	require.Equal(t, buildInfo{module: "v0.1.0", revision: linked}, buildInfoOf(plain, linked))
	for _, bad := range []string{"", "0123", "/home/builder/penstock", "0123456/", "HEAD"} {
		require.Empty(t, buildInfoOf(&debug.BuildInfo{}, bad).revision, bad)
	}
}

// The server logs the same version as penstock version prints.
func TestServerLogsItsVersion(t *testing.T) {
	line := start(t, "--config", readLake(t).config).stderr.find(t, "penstock serves")
	require.Equal(t, version(), line["version"])
	require.Equal(t, runtime.Version(), line["go"])
	require.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, line["platform"])
}
