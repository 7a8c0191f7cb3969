package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// siteIndex leads from the folder of all versions to one of them.
const siteIndex = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Penstock</title><meta http-equiv="refresh" content="0; url=%[1]s/index.html"></head>
<body><a href="%[1]s/index.html">Penstock %[1]s</a></body></html>
`

// site builds the documentation as HTML files in a folder for the version, beside those of other versions that are there. Python has
// mkdocs. A link that leads nowhere is an error.
func (c *checkout) site(ctx context.Context) error {
	work, err := os.MkdirTemp("", "penstock-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is a temporary folder
	if err := c.copyPages(ctx, filepath.Join(work, "docs"), "docs/pictures"); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(work, "mkdocs.yml"), filepath.Join(c.root, "tools/site/mkdocs.yml")); err != nil {
		return err
	}
	all := filepath.Join(c.out, "site")
	command := exec.CommandContext(ctx, c.python, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", filepath.Join(all, c.version))
	command.Dir, command.Stdout, command.Stderr = work, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "NO_MKDOCS_2_WARNING=1", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", c.time.Unix()))
	if err := command.Run(); err != nil {
		return fmt.Errorf("mkdocs: %w", err)
	}
	return writeVersions(all)
}

// siteVersion is an entry of the list from which the pages offer other versions, in the form of the program mike.
type siteVersion struct {
	Version string   `json:"version"`
	Title   string   `json:"title"`
	Aliases []string `json:"aliases"`
}

// writeVersions writes the list of the versions that a folder has, the newest first, and its first page.
func writeVersions(folder string) error {
	found, err := filepath.Glob(filepath.Join(folder, "*", "search", "search_index.json"))
	if err != nil {
		return err
	}
	var out []siteVersion
	for _, index := range found {
		name := filepath.Base(filepath.Dir(filepath.Dir(index)))
		out = append(out, siteVersion{name, name, []string{}})
	}
	slices.SortFunc(out, func(a, b siteVersion) int { return compareVersions(b.Version, a.Version) })
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	if err := writeText(filepath.Join(folder, "versions.json"), append(text, '\n')); err != nil {
		return err
	}
	return writeText(filepath.Join(folder, "index.html"), fmt.Appendf(nil, siteIndex, out[0].Version))
}

// compareVersions compares texts such as "0.10.2" by their numbers. A text that is not of this form is before all others.
func compareVersions(a, b string) int {
	of := func(text string) (n [3]int) {
		if _, err := fmt.Sscanf(text, "%d.%d.%d", &n[0], &n[1], &n[2]); err != nil {
			return [3]int{-1}
		}
		return n
	}
	x, y := of(a), of(b)
	return slices.Compare(x[:], y[:])
}
