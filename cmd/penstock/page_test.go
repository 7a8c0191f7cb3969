package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// page returns the text of a documentation page.
func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	require.NoError(t, err)
	return string(text)
}

// commands returns the commands of the program.
func commands() []*cobra.Command {
	p := process{terminal: terminal{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}}
	return p.commands()
}

// The page on queries documents every flag that sets a field of the query.
func TestQueriesPageHasFlags(t *testing.T) {
	c := &cobra.Command{}
	cmdline.NewQuery(c)
	text := page(t, "docs/queries.md")
	seen := 0
	c.Flags().VisitAll(func(f *pflag.Flag) {
		seen++
		require.Regexp(t, "`?--"+f.Name+"[ `]", text, "--%s", f.Name)
	})
	require.Greater(t, seen, 10)
}

// Every command and flag of penstock that a page mentions exists.
func TestFlagsOnPagesExist(t *testing.T) {
	known := map[string]bool{"help": true}
	var names []string
	for _, c := range commands() {
		names = append(names, c.Name())
		for _, one := range append(c.Commands(), c) {
			one.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
	}
	found, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	seen := 0
	for _, path := range append(found, "../../README.md") {
		text := page(t, strings.TrimPrefix(path, "../../"))
		for _, m := range regexp.MustCompile(`(?:^|[ \x60(/])penstock ([a-z]+)( [^\x60\n|]*)?`).FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
			if !strings.Contains(m[0], "--") {
				continue
			}
			seen++
			require.True(t, m[1] == "version" || slices.Contains(names, m[1]), "%s: %s", path, m[0])
			for _, flag := range regexp.MustCompile(` --([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
				require.True(t, known[flag[1]], "%s: %s", path, m[0])
			}
		}
	}
	require.GreaterOrEqual(t, seen, 8)
}

// The page on errors lists exactly the exit codes of the program.
func TestErrorsPageHasExitCodes(t *testing.T) {
	_, table, found := strings.Cut(page(t, "docs/errors.md"), "<!-- exit codes -->\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var codes []int
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(table, -1) {
		code, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		codes = append(codes, code)
	}
	require.Equal(t, []int{exitOK, exitFailure, exitUsage, exitUnverified, exitBroken, exitInterrupted}, codes)
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\texit\w+ += (\d+)`).FindAllStringSubmatch(string(source), -1) {
		require.Contains(t, table, "\n| "+m[1]+" |")
	}
}
