package cmdline

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagGroup is a group of flags that the help of a command lists together.
type FlagGroup struct {
	Title string
	Flags []string // the names of the flags, in the order in which the help lists them
}

// ungrouped is the title of flags without a group.
const ungrouped = "Other"

// Layout of the help of grouped flags, in characters.
const (
	helpWidth = 100 // the width of a line
	helpText  = 30  // the column where the text of a flag begins
)

// SetGroups makes the help of a command list its flags in groups. Flags that are in no group are
// listed last, so that no flag is missing from the help.
func SetGroups(c *cobra.Command, groups []FlagGroup) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		c.InitDefaultHelpFlag()
		rest := FlagGroup{Title: ungrouped}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.ContainsFunc(groups, func(g FlagGroup) bool { return slices.Contains(g.Flags, f.Name) }) {
				rest.Flags = append(rest.Flags, f.Name)
			}
		})
		for _, g := range append(slices.Clone(groups), rest) {
			g.write(&b, c.Flags())
		}
		_, err := io.WriteString(c.OutOrStdout(), b.String())
		return err
	})
}

// write writes the flags of a group. It omits hidden flags, and flags that the command does not
// have.
func (g FlagGroup) write(b *strings.Builder, flags *pflag.FlagSet) {
	title := "\n" + g.Title + ":\n"
	for _, name := range g.Flags {
		if f := flags.Lookup(name); f != nil && !f.Hidden {
			b.WriteString(title)
			title = ""
			writeFlag(b, f)
		}
	}
}

// writeFlag writes the name of a flag, the shape of its value, and its text.
func writeFlag(b *strings.Builder, f *pflag.Flag) {
	name := "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	if shape := f.Value.Type(); shape != "bool" {
		name += " " + shape
	}
	lines := wrapped(f.Usage, helpWidth-helpText)
	if len(lines) > 1 {
		lines = wrapped(brief(f.Usage), helpWidth-helpText)
	}
	if utf8.RuneCountInString(name) > helpText-2 {
		fmt.Fprintf(b, "%s\n", name)
		name = ""
	}
	for _, line := range lines {
		fmt.Fprintf(b, "%-*s%s\n", helpText, name, line)
		name = ""
	}
}

// brief returns the usage text of a flag up to the first semicolon, followed by the default of the
// flag.
func brief(usage string) string {
	text, byDefault := usage, ""
	if at := strings.LastIndex(usage, " (default"); at >= 0 {
		text, byDefault = usage[:at], usage[at:]
	}
	text, _, _ = strings.Cut(text, ";")
	return text + byDefault
}

// wrapped breaks a text between words into lines of at most width characters. Longer words are not
// broken.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
