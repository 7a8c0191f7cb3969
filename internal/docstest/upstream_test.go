package docstest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPatchesApply checks that each patch for a library applies to the version that go.mod names, has a test, and
// is described on the page of patches.
func TestPatchesApply(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/upstream/README.md")
	patches, err := filepath.Glob(filepath.Join(root, "docs/upstream/*.patch"))
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	named := regexp.MustCompile("^[0-9]{4}-([a-z]+-go)-([0-9.]+)-[a-z-]+[.]patch$")
	modules := map[string]string{"arrow-go": "github.com/apache/arrow-go/v18", "iceberg-go": "github.com/apache/iceberg-go"}
	for _, path := range patches {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, page, "`"+name+"`")
			parts := named.FindStringSubmatch(name)
			require.NotNil(t, parts, "its name is a number, a library, its version and words")
			version, sources, ok := strings.Cut(output(t, root, "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", modules[parts[1]]), " ")
			require.True(t, ok)
			require.Equal(t, "v"+parts[2], version, "go.mod has another version than the patch is for")
			absolute, err := filepath.Abs(path)
			require.NoError(t, err)
			copied := t.TempDir()
			changed := strings.Fields(output(t, copied, "git", "apply", "--numstat", absolute))
			require.Contains(t, strings.Join(changed, " "), "_test.go")
			for i := 2; i < len(changed); i += 3 { // lines added, lines removed, file
				text, err := os.ReadFile(filepath.Join(sources, changed[i]))
				if os.IsNotExist(err) {
					continue // the patch adds it
				}
				require.NoError(t, err)
				to := filepath.Join(copied, changed[i])
				require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
				require.NoError(t, os.WriteFile(to, text, 0o600))
			}
			output(t, copied, "git", "apply", "--check", absolute)
		})
	}
}

// output runs a command in a folder and returns its standard output.
func output(t *testing.T, folder string, command ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), command[0], command[1:]...) //nolint:gosec // of this test
	run.Dir = folder
	out, err := run.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		require.NoError(t, err, "%s", failed.Stderr)
	}
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
