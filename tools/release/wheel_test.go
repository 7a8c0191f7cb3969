package main

import (
	"archive/zip"
	"debug/buildinfo"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wheelsOf returns the wheels that were built, by platform.
func wheelsOf(t *testing.T) map[platform]string {
	t.Helper()
	folder := needed(t, "PENSTOCK_WHEELS")
	platforms, err := parsePlatforms("linux/amd64,linux/arm64,darwin/amd64,darwin/arm64")
	require.NoError(t, err)
	found := map[platform]string{}
	for _, p := range platforms {
		names, err := filepath.Glob(filepath.Join(folder, "penstock-*-py3-none-"+p.wheelTag()+".whl"))
		require.NoError(t, err)
		for _, name := range names {
			found[p] = name
		}
	}
	require.Contains(t, found, platform{runtime.GOOS, runtime.GOARCH})
	return found
}

// Each wheel that was built has the program of its platform, by the header, and the licenses. Those of other platforms are
// checked no further: they do not run here.
func TestWheelsHaveTheProgramOfTheirPlatform(t *testing.T) {
	for p, name := range wheelsOf(t) {
		stat, err := os.Stat(name)
		require.NoError(t, err)
		require.LessOrEqual(t, stat.Size(), int64(maxWheel), name)
		archive, err := zip.OpenReader(name)
		require.NoError(t, err)
		files := map[string]string{}
		for _, f := range archive.File {
			text, err := f.Open()
			require.NoError(t, err)
			content, err := io.ReadAll(text)
			require.NoError(t, err)
			_, inside, _ := strings.Cut(f.Name, "/")
			files[inside] = string(content)
			require.Equal(t, inside == "scripts/penstock", f.Mode()&0o111 != 0, f.Name)
		}
		require.NoError(t, archive.Close())
		size, pages := 0, map[string]string{}
		for name, text := range files {
			if page, ok := strings.CutPrefix(name, "docs/"); ok {
				size += len(text)
				pages[page] = text
			}
		}
		require.Empty(t, brokenLinks(pages))
		require.Contains(t, files["docs/datasets.md"], "# Datasets")
		require.Contains(t, files["docs/spec/join.md"], "**join-1**")
		require.Less(t, size, 1<<20)
		require.Contains(t, files["WHEEL"], "\nTag: py3-none-"+p.wheelTag()+"\n")
		require.Contains(t, files["licenses/LICENSE"], "Apache License")
		require.Contains(t, files["licenses/"+noticesFile], "\ngithub.com/apache/arrow-go/v18 v")
		program := filepath.Join(t.TempDir(), "penstock")
		require.NoError(t, os.WriteFile(program, []byte(files["scripts/penstock"]), 0o600))
		require.NoError(t, checkHeader(program, p))
		other := platform{"linux", map[string]string{"amd64": "arm64", "arm64": "amd64"}[p.arch]}
		require.Error(t, checkHeader(program, other))
		require.Error(t, checkHeader(program, platform{"darwin", other.arch}))
		build, err := buildinfo.ReadFile(program)
		require.NoError(t, err)
		require.Equal(t, "github.com/penstock/penstock/cmd/penstock", build.Path)
		needs, err := requirements(name)
		require.NoError(t, err)
		require.Len(t, needs, 1)
		require.Equal(t, "pkg:pypi/pyarrow", needs[0].PURL)
	}
}

// brokenLinks returns the relative links of pages that lead to no page, or to no heading of a page.
func brokenLinks(pages map[string]string) []string {
	var out []string
	for name, text := range pages {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[2], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[2], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if page, ok := pages[target]; !ok || anchor != "" && !slices.Contains(headings(page), anchor) {
				out = append(out, name+": "+found[0])
			}
		}
	}
	return out
}

// headings returns the anchors of a page's headings.
func headings(page string) []string {
	var out []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			text := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			text = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(text, "")
			out = append(out, strings.ReplaceAll(text, " ", "-"))
		}
	}
	return out
}

// Every relative link of the wheel's pages has a target in the wheel, and links to other files name these files.
func TestLinksOfPagesInTheWheel(t *testing.T) {
	folder := t.TempDir()
	c := &checkout{root: "../.."}
	require.NoError(t, c.copyPages(t.Context(), folder))
	pages := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		pages[filepath.ToSlash(name)] = string(text)
		return err
	}))
	require.Greater(t, len(pages), 50)
	require.Empty(t, brokenLinks(pages))
	require.Contains(t, pages["python.md"], "`client.read(")
	require.Contains(t, pages["scale.md"], "(`benchmarks/README.md` in the repository)")
	require.Contains(t, pages["layout.md"], "\nThe 8 buckets of a training table with 4 and with 6 buckets of staging tables (`docs/pictures/")
	require.Len(t, brokenLinks(map[string]string{"a.md": "# A\n[b](b.md) [c](c.md#none) [d](../d.go) [e](#a) [f](c.md#c)", "c.md": "# C"}), 3)
}

func TestPlatformsAreKnown(t *testing.T) {
	_, err := parsePlatforms("linux/amd64,plan9/386")
	require.ErrorContains(t, err, `"plan9/386" is none of`)
}

// A library without a license is not shipped.
func TestLibrariesNeedALicense(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "README.md"), nil, 0o600))
	require.ErrorContains(t, writeLicenses(nil, "example.org/m v1.0.0", folder), "example.org/m v1.0.0 has no license")
	require.ErrorContains(t, writeLicenses(nil, "example.org/m v1.0.0", filepath.Join(folder, "none")), "the sources of example.org/m v1.0.0")
}
