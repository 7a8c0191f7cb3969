package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the dashboard and the alerts again; review them as a diff")

const root = "../.."

// all returns the rows of the dashboard.
func all(t *testing.T) []row {
	t.Helper()
	known, err := metrics(root)
	require.NoError(t, err)
	return append(rows(), others(known))
}

// TestFilesAreCommitted compares the committed files with those that the program writes.
func TestFilesAreCommitted(t *testing.T) {
	if *rewrite {
		require.NoError(t, write(root))
	}
	made, err := files(root)
	require.NoError(t, err)
	for name, want := range made {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s differs: run go run ./tools/monitoring", name)
	}
}

// TestQueriesNameMetricsAndLabels looks up each metric of a query, and the labels that select its series, in docs/metrics.md.
// Each metric is on the dashboard.
func TestQueriesNameMetricsAndLabels(t *testing.T) {
	known, err := metrics(root)
	require.NoError(t, err)
	byName := byName(known)
	shown := map[string]bool{}
	check := func(expr string) {
		for _, name := range metricNames.FindAllString(expr, -1) {
			require.Contains(t, byName, base(name, byName), expr)
		}
		for _, of := range regexp.MustCompile(`(penstock_\w+)\{([^}]*)\}`).FindAllStringSubmatch(expr, -1) {
			for _, label := range regexp.MustCompile(`(\w+)(?:=|!)`).FindAllStringSubmatch(of[2], -1) {
				require.Contains(t, append([]string{"job", "instance"}, byName[base(of[1], byName)].labels...), label[1], expr)
			}
		}
	}
	for _, r := range all(t) {
		for _, p := range r.panels {
			for _, q := range p.queries {
				check(selected(q.expr))
				for _, name := range metricNames.FindAllString(q.expr, -1) {
					shown[base(name, byName)] = true
				}
			}
		}
	}
	for _, a := range slices.Concat(symptoms(), causes()) {
		check(a.expr)
	}
	for _, m := range known {
		require.True(t, shown[m.name], m.name)
	}
}

// classic is the form of dashboards that Grafana 10 and 11 import, too.
type classic = dashboard.Dashboard //nolint:staticcheck // the form that replaces it is for newer versions

// TestDashboardFitsGrafanasSchema decodes the dashboard with the types that Grafana generates from its schema: unknown fields
// and values are errors.
func TestDashboardFitsGrafanasSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana/penstock.json"))
	require.NoError(t, err)
	var d classic
	require.Empty(t, differences(d.UnmarshalJSONStrict(text)))
	d = classic{} // a strict decoder leaves out panels
	require.NoError(t, json.Unmarshal(text, &d))
	require.Empty(t, differences(d.Validate()))
	titles := map[string]bool{}
	taken := map[[2]uint32]bool{}
	for _, one := range d.Panels {
		if one.Panel == nil {
			continue
		}
		require.False(t, titles[*one.Panel.Title+*one.Panel.Description], *one.Panel.Title)
		titles[*one.Panel.Title+*one.Panel.Description] = true
		at := one.Panel.GridPos
		for x := at.X; x < at.X+at.W; x++ {
			require.Less(t, x, uint32(gridWidth))
			for y := at.Y; y < at.Y+at.H; y++ {
				require.False(t, taken[[2]uint32{x, y}], "%s lies over another panel", *one.Panel.Title)
				taken[[2]uint32{x, y}] = true
			}
		}
	}
	require.Greater(t, len(titles), 40)

	broken := strings.Replace(string(text), `"graphTooltip"`, `"graphTooltips"`, 1)
	require.Equal(t, "Dashboard: unexpected field 'graphTooltips'", differences(d.UnmarshalJSONStrict([]byte(broken))))
}

// differences returns the text of an error, or "". The library returns an empty list of errors instead of nil.
func differences(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestRunbookHasEachAlert compares the sections of the runbook with the alerts. Each section has the same parts, and names
// panels that exist.
func TestRunbookHasEachAlert(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, runbook))
	require.NoError(t, err)
	sections := strings.Split(string(text), "\n## ")[1:]
	var titles, names []string
	panels := map[string]bool{}
	for _, r := range all(t) {
		for _, p := range r.panels {
			panels[p.title] = true
		}
	}
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		titles = append(titles, title)
		for _, part := range []string{"\n**Fires:** ", "\n**Users notice:** ", "\n**Confirm:** ", "\n**Act:** ", "\n**Escalate:** "} {
			require.Equal(t, 1, strings.Count(body, part), "%s: %s", title, part)
		}
		for _, named := range regexp.MustCompile(`panel\s+"([^"]+)"`).FindAllStringSubmatch(body, -1) {
			require.Contains(t, panels, strings.Join(strings.Fields(named[1]), " "), title)
		}
	}
	for _, a := range slices.Concat(symptoms(), causes()) {
		names = append(names, a.name)
		require.NotEmpty(t, a.why, a.name)
	}
	require.Equal(t, names, titles, "in the order of the rules")
	for _, named := range regexp.MustCompile(`Penstock[A-Z]\w+`).FindAllString(string(text), -1) {
		require.Contains(t, names, named)
	}
}
