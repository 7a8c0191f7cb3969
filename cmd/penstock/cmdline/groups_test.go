package cmdline_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// A text of more than a line loses what follows its first semicolon, but not its default. A flag without a group is shown.
func TestGroupsOfFlags(t *testing.T) {
	c := &cobra.Command{Use: "serve", Example: "  serve", Run: func(*cobra.Command, []string) {}}
	cmdline.Text(c, "listen,l", "ADDRESS", "the address to serve on; port 0 is a free one")
	cmdline.Text(c, "memory", "BYTES", "the memory budget, "+strings.Repeat("and so on, ", 6)+"in all; details (default: half)")
	cmdline.Text(c, "a-flag-with-a-long-name", "SHAPE", "its text")
	c.Flags().Bool("new", false, "a switch")
	cmdline.SetGroups(c, []cmdline.FlagGroup{{Title: "Memory", Flags: []string{"memory", "gone"}}, {Title: "None", Flags: []string{"gone"}}, {Title: "Rest", Flags: []string{"listen", "help", "a-flag-with-a-long-name"}}})
	var out strings.Builder
	c.SetOut(&out)
	require.NoError(t, c.Usage())
	require.Equal(t, `Usage:
  serve [flags]

Examples:
  serve

Memory:
      --memory BYTES          the memory budget, and so on, and so on, and so on, and so on, and so
                              on, and so on, in all (default: half)

Rest:
  -l, --listen ADDRESS        the address to serve on; port 0 is a free one
  -h, --help                  help for serve
      --a-flag-with-a-long-name SHAPE
                              its text

Other:
      --new                   a switch
`, out.String())
}
