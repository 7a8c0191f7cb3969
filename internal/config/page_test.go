package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
)

// settingsTable is the table of settings as docs/config.md has it.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| setting | value | default | what it is |\n|---|---|---|---|\n")
	for _, s := range config.Settings() {
		shape, usage, byDefault := s.Shape, s.Usage, s.Default
		switch {
		case s.Switch():
			shape = "true, false"
		case s.List:
			shape += ", …"
		}
		if byDefault == "" {
			var found bool
			usage, byDefault, found = strings.Cut(usage, " (default: ")
			if !found {
				panic("the usage of " + s.Name + " does not say what it is by default")
			}
			byDefault = strings.TrimSuffix(byDefault, ")")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, shape, byDefault, usage)
	}
	return b.String()
}

// TestConfigPage: the page on the config file has every setting, with the
// default and the meaning that the command line shows.
func TestConfigPage(t *testing.T) {
	const page, from, to = "../../docs/config.md", "<!-- settings: ", "<!-- end of settings -->\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), from)
	require.True(t, found)
	note, rest, found := strings.Cut(rest, "\n")
	require.True(t, found)
	_, after, found := strings.Cut(rest, to)
	require.True(t, found)
	want := before + from + note + "\n" + settingsTable() + to + after
	if *rewrite {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./internal/config -rewrite")
}

// TestVariables: each variable of the environment that a page names is a setting's, or one
// of those that name what the commands read.
func TestVariables(t *testing.T) {
	known := map[string]bool{"PENSTOCK_CONFIG": true, "PENSTOCK_URI": true, "PENSTOCK_LONG": true, "PENSTOCK_BIN": true, "PENSTOCK_PROMOTION_RUNS": true}
	for _, s := range config.Settings() {
		known[s.Env()] = true
	}
	seen := 0
	for _, pattern := range []string{"../../docs/*.md", "../../*.md", "../../python/README.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, page := range found {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, name := range regexp.MustCompile(`PENSTOCK_[A-Z_]+`).FindAllString(string(text), -1) {
				seen++
				require.True(t, known[name], "%s names %s", page, name)
			}
		}
	}
	require.Positive(t, seen)
}
