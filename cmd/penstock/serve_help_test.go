package main

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
)

// Every flag of serve is in exactly one group. A new setting must be added to one.
func TestEveryFlagOfServeIsInOneGroup(t *testing.T) {
	groups := map[string]int{}
	for _, g := range serveGroups() {
		require.NotEmpty(t, g.Title)
		for _, name := range g.Flags {
			groups[name]++
		}
	}
	c := serveCommand(process{})
	c.InitDefaultHelpFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		require.Equal(t, 1, groups[f.Name], "--%s: add it to serveGroups", f.Name)
		delete(groups, f.Name)
	})
	require.Empty(t, groups, "groups have flags that serve lacks")
}

// The help lists each flag once, and fits in a terminal of 100 columns.
func TestHelpOfServeListsEachFlagOnce(t *testing.T) {
	got := run(t, "serve", "--help")
	require.Zero(t, got.code, got.stderr)
	_, flags, found := strings.Cut(got.stdout, "\nGeneral:\n")
	require.True(t, found)
	require.NotContains(t, flags, "\nOther:\n")
	for _, s := range config.Settings() {
		require.Len(t, regexp.MustCompile(`(?m)^      --`+s.Flag()+`( |$)`).FindAllString(flags, -1), 1, s.Flag())
	}
	for line := range strings.Lines(got.stdout) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
	require.LessOrEqual(t, strings.Count(flags, "\n"), 3*len(config.Settings()))
}
