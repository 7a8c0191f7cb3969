package docstest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// setting is a field with a value, and the other fields that it requires.
type setting struct{ field, text string }

// querySettings are values of a query's fields. If a field conflicts with another one, it
// does for one of these values. A field without values here is tried alone with each of its
// words, or with a number.
func querySettings() []setting {
	out := []setting{
		{"shard", `{"shard": {"of": 2}}`},
		{"every", `{"every": {"step": 0, "of": 2}}`},
		{"wire", `{"wire": "indexed"}`},
		{"wire", `{"wire": "auto"}`},
		{"wire", `{"wire": "grouped", "batch_requests": 8}`},
		{"shuffle", `{"shuffle": "rows", "order": "shuffled"}`},
		{"shuffle", `{"shuffle": "requests", "order": "shuffled"}`},
		{"shuffle", `{"shuffle": "splits", "order": "shuffled"}`},
		{"shuffle", `{"shuffle": "splits"}`},
		{"shuffle_window", `{"shuffle_window": 8, "order": "shuffled"}`},
		{"shuffle_parts", `{"shuffle_parts": 2, "order": "shuffled"}`},
		{"seed", `{"seed": 7, "order": "shuffled"}`},
		{"sample", `{"sample": {"rate": 0.5}}`},
		{"filter", `{"filter": "a = 1"}`},
		{"snapshots", `{"snapshots": {"training": {"snapshot": 7}}}`},
		{"columns", `{"columns": ["a"]}`},
		{"dense", `{"dense": {"d": ["a"]}}`},
		{"with", `{"with": [{"table": "a.b"}]}`},
	}
	own := len(out)
	for _, f := range dataset.QueryFields() {
		if slices.ContainsFunc(out[:own], func(s setting) bool { return s.field == f.Name }) {
			continue
		}
		switch {
		case f.Number:
			out = append(out, setting{f.Name, fmt.Sprintf(`{%q: %d}`, f.Name, max(2, f.Low))})
		case f.Label:
			out = append(out, setting{f.Name, fmt.Sprintf(`{%q: "j"}`, f.Name)})
		}
		for _, word := range f.Words {
			out = append(out, setting{f.Name, fmt.Sprintf(`{%q: %q}`, f.Name, word)})
		}
	}
	return out
}

// fields returns the union of the members of JSON objects; nil if they conflict.
func fields(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	out := map[string]any{"dataset": "d"}
	for _, text := range texts {
		var more map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &more), text)
		for name, value := range more {
			if had, twice := out[name]; twice && !jsonEqual(t, had, value) {
				return nil
			}
			out[name] = value
		}
	}
	return out
}

func jsonEqual(t *testing.T, a, b any) bool {
	t.Helper()
	first, err := json.Marshal(a)
	require.NoError(t, err)
	second, err := json.Marshal(b)
	require.NoError(t, err)
	return string(first) == string(second)
}

// refusal returns the error for a query; nil if it is valid.
func refusal(t *testing.T, query map[string]any) *fault.Error {
	t.Helper()
	text, err := json.Marshal(query)
	require.NoError(t, err)
	_, err = decode.Query(text)
	return fault.As(err)
}

// refused returns the pairs of fields that a page documents as conflicting.
func refused(page string) map[string]bool {
	out := map[string]bool{}
	for _, r := range tables(page, "refused together") {
		names := r.names()
		slices.Sort(names)
		out[strings.Join(names, ", ")] = true
	}
	return out
}

// undocumented returns the pairs of fields that are refused, but not documented as such.
func undocumented(t *testing.T, page string, all []setting, fields func(*testing.T, ...string) map[string]any, refusal func(*testing.T, map[string]any) *fault.Error) []string {
	t.Helper()
	known := refused(page)
	var out []string
	for _, a := range all {
		for _, b := range all {
			query := fields(t, a.text, b.text)
			if a.field >= b.field || query == nil || refusal(t, query) == nil {
				continue
			}
			documented := false // for the two fields, or for one that they require
			names := slices.Collect(maps.Keys(query))
			for _, one := range names {
				for _, other := range names {
					documented = documented || known[one+", "+other]
				}
			}
			if pair := a.field + ", " + b.field; !documented && !slices.Contains(out, pair) {
				out = append(out, pair)
			}
		}
	}
	return out
}

// TestConflictingQueryFieldsAreDocumented: each documented pair is refused, but valid
// without either field, and each refused pair is documented.
func TestConflictingQueryFieldsAreDocumented(t *testing.T) {
	page := read(t, "docs/queries.md")
	require.Greater(t, len(refused(page)), 10)
	for _, r := range tables(page, "refused together") {
		example := strings.Trim(r[1], "`")
		require.NotNil(t, refusal(t, fields(t, example)), example)
		for _, name := range r.names() {
			require.Contains(t, example, `"`+name+`"`)
			less := fields(t, example)
			delete(less, name)
			require.Nil(t, refusal(t, less), "%s without %s", example, name)
		}
	}
	for _, s := range querySettings() {
		require.Nil(t, refusal(t, fields(t, s.text)), s.text)
	}
	require.Empty(t, undocumented(t, page, querySettings(), fields, refusal))
	for name := range decoded(t)["Query"] {
		tried := slices.ContainsFunc(querySettings(), func(s setting) bool { return s.field == name })
		// The fields of a query must agree with its cursor; see TestFieldsThatMayChangeWithACursor.
		require.True(t, tried || name == "dataset" || name == "cursor" || name == "start", "%s is not combined with other fields", name)
	}
}

// TestBatchRowsReplaceOtherSizes: WithBatchRows unsets each field that batch_rows cannot be combined with, and the readers of groups
// and their keys rely on it.
func TestBatchRowsReplaceOtherSizes(t *testing.T) {
	replaced := 0
	for _, s := range querySettings() {
		both := fields(t, s.text, `{"batch_rows": 8}`)
		if both == nil || refusal(t, both) == nil {
			continue
		}
		if _, requires := fields(t, s.text)["batch_requests"]; requires && s.field != "batch_requests" {
			continue
		}
		replaced++
		text, err := json.Marshal(fields(t, s.text))
		require.NoError(t, err)
		q, err := decode.Query(text)
		require.NoError(t, err)
		q.Reading = q.WithBatchRows(8)
		require.NoError(t, q.Check(), s.text)
		require.Equal(t, 8, q.BatchRows)
	}
	require.Equal(t, 2, replaced)
}

// TestUndocumentedPairsAreFound removes a row from the page.
func TestUndocumentedPairsAreFound(t *testing.T) {
	page := read(t, "docs/queries.md")
	less := strings.Replace(page, "| `limit`, `tail` |", "| limit and tail |", 1)
	require.NotEqual(t, page, less)
	require.Equal(t, []string{"limit, tail"}, undocumented(t, less, querySettings(), fields, refusal))
}

// TestFieldsThatRequireOthersAreDocumented: each documented field is refused alone, but
// valid with the one it requires, and each field that requires another one is documented.
func TestFieldsThatRequireOthersAreDocumented(t *testing.T) {
	rows := tables(read(t, "docs/queries.md"), "refused alone")
	known := map[string]bool{}
	for _, r := range rows {
		known[r.names()[0]] = true
		alone, needed := strings.Trim(r[1], "`"), strings.Trim(r[2], "`")
		require.NotNil(t, refusal(t, fields(t, alone)), alone)
		require.Nil(t, refusal(t, fields(t, alone, needed)), alone)
	}
	for _, s := range querySettings() {
		alone := fields(t, s.text)
		maps.DeleteFunc(alone, func(name string, _ any) bool { return name != s.field && name != "dataset" })
		if refusal(t, alone) != nil {
			require.True(t, known[s.field], "the page does not document what %s requires", s.text)
		}
	}
}

// TestFieldsThatMayChangeWithACursor: the fields in the first column of the table may
// change, and those in the second must agree with the cursor.
func TestFieldsThatMayChangeWithACursor(t *testing.T) {
	_, table, found := strings.Cut(read(t, "docs/queries.md"), "| may change | taken from the cursor; must agree if repeated |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var change, agree []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		change, agree = append(change, between(cells[1])...), append(agree, between(cells[2])...)
	}
	var all []string
	for name, served := range decoded(t)["Query"] {
		if served && name != "dataset" && name != "cursor" {
			all = append(all, name)
		}
	}
	require.ElementsMatch(t, all, slices.Concat(change, agree))
	cursor := datasettest.Summed(`{"v":1,"plan":"p","algorithm":1,"dataset":"x","filter":"a = 2","order":"stored","shuffle":"splits","seed":0,"epoch":0,"lanes":2,
		"pin":{"training":{"uuid":"u","snapshot":1,"schema":0},"staging":{}},"shard":{"index":0,"of":1},"step":1,"rows":4,
		"at":[{"lane":0,"split":0,"row":4},{"lane":1,"split":0,"row":4}]}`)
	with := func(text string) *fault.Error { return refusal(t, fields(t, `{"cursor": `+cursor+`}`, text)) }
	require.Nil(t, with(`{}`))
	for _, text := range []string{
		`{"columns": ["b"]}`, `{"dense": {"d": ["a"]}}`, `{"wire": "indexed"}`, `{"batch_rows": 8}`, `{"global_batch_rows": 8}`,
		`{"tail": "drop"}`, `{"count": "exact"}`, `{"limit": 8}`, `{"shard": {"of": 2}}`, `{"every": {"step": 0, "of": 2}}`,
	} {
		require.Nil(t, with(text), text)
	}
	for _, text := range []string{
		`{"sample": {"rate": 0.5}}`, `{"since": 7}`, `{"snapshots": {"training": {"snapshot": 7}}}`, `{"order": "shuffled"}`,
		`{"shuffle": "rows"}`, `{"shuffle_window": 8}`, `{"shuffle_parts": 2}`, `{"seed": 7}`, `{"epoch": 7}`, `{"lanes": 4}`,
	} {
		require.NotNil(t, with(text), text)
	}
}
