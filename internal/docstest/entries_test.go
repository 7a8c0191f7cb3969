package docstest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
)

// entrySettings are values of a staging entry's fields, like querySettings.
func entrySettings() []setting {
	return []setting{
		{"name", `{name: n}`},
		{"ref", `{ref: daily}`},
		{"snapshot", `{snapshot: 7}`},
		{"filter", `{filter: a = 1}`},
		{"key", `{key: {a: b}}`},
		{"columns", `{columns: [a]}`},
		{"prefix", `{prefix: p_}`},
		{"limits", `{limits: {columns: {price: {nulls: 0.05}}}}`},
		{"join", `{join: left}`},
		{"join", `{join: inner}`},
		{"join", `{join: semi}`},
		{"join", `{join: anti}`},
		{"join", `{join: overlay}`},
		{"nulls", `{join: overlay, nulls: keep}`},
		{"missing", `{missing: error}`},
		{"missing", `{missing: {default: {a: 1}}}`},
		{"duplicates", `{duplicates: first}`},
		{"duplicates", `{duplicates: all}`},
		{"order_by", `{duplicates: last, order_by: [a]}`},
		{"min_match", `{min_match: 0.5}`},
		{"matched_as", `{matched_as: has}`},
		{"align", `{align: {training: day}}`},
		{"point_in_time", `{point_in_time: {training: ts, tolerance: 1d}}`},
		{"strategy", `{strategy: merge}`},
		{"max_amplification", `{max_amplification: 8}`},
	}
}

// entry returns a staging entry with these fields; nil if they conflict.
func entry(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, text := range texts {
		var more map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &more), text)
		for name, value := range more {
			if had, twice := out[name]; twice && !jsonEqual(t, had, value) {
				return nil
			}
			out[name] = value
		}
	}
	return out
}

// entryRefusal returns the error for a dataset with an entry; nil if it is valid.
func entryRefusal(t *testing.T, of map[string]any) *fault.Error {
	t.Helper()
	of = maps.Clone(of)
	of["table"] = "f.b"
	return refusal(t, map[string]any{"dataset": map[string]any{
		"training": map[string]any{"table": "ml.a"}, "key": []string{"k"}, "staging": []any{of},
	}})
}

// TestConflictingEntryFieldsAreDocumented is TestConflictingQueryFieldsAreDocumented for
// staging entries.
func TestConflictingEntryFieldsAreDocumented(t *testing.T) {
	page := read(t, "docs/datasets.md")
	rows := tables(page, "refused together")
	require.Len(t, rows, 10)
	for _, r := range rows {
		example := entry(t, strings.Trim(r[1], "`"))
		require.NotNil(t, entryRefusal(t, example), r[1])
		for _, name := range r.names() {
			require.Contains(t, example, name)
		}
	}
	for _, s := range entrySettings() {
		require.Nil(t, entryRefusal(t, entry(t, s.text)), s.text)
	}
	require.Empty(t, undocumented(t, page, entrySettings(), entry, entryRefusal))
	less := strings.Replace(page, "| `join`, `prefix` |", "| join and prefix |", 1)
	require.Equal(t, []string{"join, prefix"}, undocumented(t, less, entrySettings(), entry, entryRefusal))
	for name, served := range decoded(t)["Staging"] {
		tried := slices.ContainsFunc(entrySettings(), func(s setting) bool { return s.field == name })
		require.True(t, tried || !served || name == "table", "%s is not combined with other fields", name)
	}
}
