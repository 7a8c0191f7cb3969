package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Extras and what follows the headers are not what a wheel needs.
func TestRequirementsAreWithoutExtras(t *testing.T) {
	const metadata = "Name: penstock\nRequires-Dist: pyarrow>=19\nRequires-Dist: torch>=2.6; extra == \"torch\"\nRequires-Dist: Under_score\n\nRequires-Dist: text\n"
	found, err := requirementsOf(strings.NewReader(metadata))
	require.NoError(t, err)
	require.Equal(t, []component{
		{Type: "library", Name: "pyarrow", PURL: "pkg:pypi/pyarrow", Properties: []property{{"penstock:versions", ">=19"}}},
		{Type: "library", Name: "Under_score", PURL: "pkg:pypi/under_score", Properties: []property{{"penstock:versions", ""}}},
	}, found)
}

// The bill of a release has each library of the programs once, in the order of their names, and what the wheel needs.
func TestBillListsEveryLibrary(t *testing.T) {
	build, err := buildinfo.ReadFile(programOf(t))
	require.NoError(t, err)
	c := &checkout{root: "../..", out: t.TempDir(), version: "0.1.0", commit: "0123456789abcdef", time: time.Unix(1800000000, 0).UTC(), programs: map[platform]program{}}
	var platforms []platform
	for p, wheel := range wheelsOf(t) {
		text, err := os.ReadFile(wheel)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(c.out, "wheels"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(c.out, "wheels", c.wheelName(p)), text, 0o600))
		c.programs[p] = program{build: build}
		platforms = append(platforms, p)
	}
	require.NoError(t, c.sbom(context.Background(), platforms))
	text, err := os.ReadFile(filepath.Join(c.out, "penstock-0.1.0.cdx.json"))
	require.NoError(t, err)
	var found bill
	require.NoError(t, json.Unmarshal(text, &found))
	require.Equal(t, "2027-01-15T08:00:00Z", found.About.Timestamp)
	var names []string
	for _, one := range found.Components {
		names = append(names, one.PURL)
	}
	require.True(t, slices.IsSorted(names))
	require.Len(t, slices.Compact(slices.Clone(names)), len(libraries(build))+3)
	require.Contains(t, names, "pkg:pypi/pyarrow")
	require.Contains(t, names, "pkg:golang/std@"+strings.TrimPrefix(build.GoVersion, "go"))
	for _, m := range libraries(build) {
		require.Contains(t, names, "pkg:golang/"+m.Path+"@"+m.Version)
	}
}
