package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
)

// settingsTable is the table of settings as docs/operations.md has it.
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

// TestOperationsPage: the page that operators read has every setting, with the
// default and the meaning that the command line shows.
func TestOperationsPage(t *testing.T) {
	const page, from, to = "../../docs/operations.md", "<!-- settings: ", "<!-- end of settings -->\n"
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
