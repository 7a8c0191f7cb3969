package docstest

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// form describes a type of object: its page, and its place in a query.
type form struct {
	page string
	// at is the path of the object in a query; nil: queries do not have it.
	at []any
}

// forms returns all objects with fields of their own, by their types in the decoder.
func forms() map[string]form {
	const datasets, queries, config, policy = "docs/datasets.md", "docs/queries.md", "docs/config.md", "docs/policy.md"
	staging := func(more ...any) []any { return append([]any{"dataset", "staging", 0}, more...) }
	return map[string]form{
		"File": {config, nil},

		"policy.Policy":      {policy, nil},
		"policy.AccessRule":  {policy, nil},
		"policy.TableLimits": {policy, nil},

		"Dataset":      {datasets, []any{"dataset"}},
		"Training":     {datasets, []any{"dataset", "training"}},
		"Distinct":     {datasets, []any{"dataset", "training", "distinct"}},
		"Staging":      {datasets, staging()},
		"OrderBy":      {datasets, staging("order_by", 0)},
		"Column":       {datasets, staging("columns", 0)},
		"Computed":     {datasets, []any{"dataset", "computed", 0}},
		"Fitted":       {datasets, nil},
		"Align":        {datasets, staging("align")},
		"PointInTime":  {datasets, staging("point_in_time")},
		"Limits":       {datasets, staging("limits")},
		"ColumnLimits": {datasets, staging("limits", "columns", "price")},
		"ChangeLimits": {datasets, staging("limits", "columns", "price", "change")},
		"Query":        {queries, []any{}},
		"Sample":       {queries, []any{"sample"}},
		"Shard":        {queries, []any{"shard"}},
		"Every":        {queries, []any{"every"}},
		"Dense":        {queries, []any{"dense", "d"}},
		"Pin":          {queries, []any{"snapshots"}},
		"TablePin":     {queries, []any{"snapshots", "training"}},
	}
}

// elsewhere returns the pages of objects whose fields are documented in text instead of a
// table.
func elsewhere() map[string]string {
	return map[string]string{
		"[]Default": "docs/datasets.md", "Cursor": "docs/spec/cursor.md", "Position": "docs/spec/cursor.md", "Counted": "docs/spec/step.md",
		"TableWrite": "docs/spec/stage.md", "PublishCommand": "docs/spec/stage.md",
		"TablesCommand": "docs/spec/history.md", "LogCommand": "docs/spec/history.md", "DiffCommand": "docs/spec/history.md", "StatsCommand": "docs/spec/stats.md",
		"CompactCommand": "docs/spec/change.md", "RestoreCommand": "docs/spec/change.md", "OrphansCommand": "docs/spec/change.md",
		"PromoteCommand": "docs/spec/change.md", "DemoteCommand": "docs/spec/change.md",
		"ProposeCommand": "docs/spec/backfill.md", "ScaleCommand": "docs/spec/output.md", "CacheDropCommand": "docs/spec/cache.md", "StallCommand": "docs/spec/status.md",
	}
}

// object returns a query with an object of the given type, as decoded JSON.
func object(t *testing.T, of string) map[string]any {
	t.Helper()
	text := `{"dataset": {"training": {"table": "ml.a"}, "key": ["k"], "staging": [{"table": "f.b"}]}}`
	switch of {
	case "Distinct":
		text = `{"dataset": {"training": {"table": "ml.a", "distinct": {"by": ["k"]}}}}`
	case "OrderBy":
		text = `{"dataset": {"training": {"table": "ml.a"}, "key": ["k"], "staging": [{"table": "f.b", "duplicates": "last", "order_by": [{"column": "u"}]}]}}`
	case "Column":
		text = `{"dataset": {"training": {"table": "ml.a"}, "key": ["k"], "staging": [{"table": "f.b", "columns": [{"column": "c"}]}]}}`
	case "Computed":
		text = `{"dataset": {"training": {"table": "ml.a"}, "computed": [{"column": "c", "expr": "a"}]}}`
	case "Align":
		text = `{"dataset": {"training": {"table": "ml.a"}, "key": ["k"], "staging": [{"table": "f.b", "align": {"training": "day"}}]}}`
	case "PointInTime":
		text = `{"dataset": {"training": {"table": "ml.a"}, "key": ["k"], "staging": [{"table": "f.b", "point_in_time": {"training": "ts", "tolerance": "1d"}}]}}`
	case "Limits", "ColumnLimits", "ChangeLimits":
		text = `{"dataset": {"training": {"table": "ml.a"}, "key": ["k"], "staging": [{"table": "f.b", "limits": {"columns": {"price": {"change": {"psi": 0.5}}}}}]}}`
	case "Sample":
		text = `{"dataset": "d", "sample": {"hash": [0, 0.5], "rate": 0.5}}`
	case "Shard":
		text = `{"dataset": "d", "lanes": 4096, "shard": {"of": 4096}, "batch_rows": 1}`
	case "Every":
		text = `{"dataset": "d", "every": {"step": 0, "of": 4096}}`
	case "Dense":
		text = `{"dataset": "d", "dense": {"d": {"columns": ["a"]}}}`
	case "Pin", "TablePin":
		text = `{"dataset": "d", "snapshots": {"training": {"uuid": "u", "snapshot": 1, "schema": 0}, "staging": {}}}`
	}
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

// with sets a field of an object in a query, and returns the field's path as errors have
// it.
func with(query map[string]any, at []any, name string, value any) string {
	var into any = query
	path := ""
	for _, step := range at {
		switch step := step.(type) {
		case string:
			into = into.(map[string]any)[step] //nolint:forcetypeassert // the queries above
			path += step + "."
		case int:
			into = into.([]any)[step] //nolint:forcetypeassert // the queries above
			path = strings.TrimSuffix(path, ".") + "[" + strconv.Itoa(step) + "]."
		}
	}
	into.(map[string]any)[name] = value //nolint:forcetypeassert // the queries above
	return path + name
}

// asked decodes a query and returns the error message for a field; "" if there is none.
func asked(t *testing.T, query map[string]any, path string) (string, dataset.Query) {
	t.Helper()
	text, err := json.Marshal(query)
	require.NoError(t, err)
	q, err := decode.Query(text)
	if err == nil {
		return "", q
	}
	for _, f := range fault.As(err).Faults {
		if f.Field == path {
			return f.Message, q
		}
	}
	return "", q
}

// compare returns the differences between a page and the decoder for the fields of an
// object.
func compare(of, page string, served map[string]bool) []string {
	var faults []string
	known := map[string]bool{}
	for _, r := range tables(page, "fields of "+of) {
		for _, name := range r.names() {
			known[name] = true
			if _, ok := served[name]; !ok {
				faults = append(faults, of+" has no field "+name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(served)) {
		switch {
		case served[name] && !known[name]:
			faults = append(faults, "no table documents "+of+"."+name)
		case !served[name] && known[name]:
			faults = append(faults, of+"."+name+" is not served")
		case !served[name] && !strings.Contains(page, "`"+name+"`"):
			faults = append(faults, "the page does not say that "+of+"."+name+" is refused")
		}
	}
	return faults
}

// TestFieldsAreDocumented: each field of the decoder has a row, and each row has a field.
func TestFieldsAreDocumented(t *testing.T) {
	found := decoded(t)
	require.Greater(t, len(found["Query"]), 20)
	for of, page := range elsewhere() {
		for name := range found[of] {
			require.Regexp(t, "[`{\"]"+name+"[`\":]", read(t, page), "%s does not mention %s of %s", page, name, of)
		}
		delete(found, of)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(forms())), slices.Collect(maps.Keys(found)))
	for of, served := range found {
		require.Empty(t, compare(of, read(t, forms()[of].page), served))
	}
	for path, page := range pages(t) {
		for mark := range marks(page) {
			if of, ok := strings.CutPrefix(mark, "fields of "); ok && !strings.Contains(of, ".") && of != "a failure" {
				require.Equal(t, path, forms()[of].page, "the table of %s", of)
			}
		}
	}
}

// TestFieldDifferencesAreFound changes a page or the decoder's fields, one at a time.
func TestFieldDifferencesAreFound(t *testing.T) {
	page := read(t, "docs/queries.md")
	served := decoded(t)["Query"]
	for name, change := range map[string]func() (string, map[string]bool){
		"Query has no field seeds": func() (string, map[string]bool) {
			return strings.Replace(page, "| `seed` |", "| `seed`, `seeds` |", 1), served
		},
		"no table documents Query.seed": func() (string, map[string]bool) {
			return strings.Replace(page, "| `seed` |", "| seed |", 1), served
		},
		"no table documents Query.fresh": func() (string, map[string]bool) {
			more := maps.Clone(served)
			more["fresh"] = true
			return page, more
		},
		"Query.seed is not served": func() (string, map[string]bool) {
			less := maps.Clone(served)
			less["seed"] = false
			return page, less
		},
		"the page does not say that Query.start is refused": func() (string, map[string]bool) {
			return strings.ReplaceAll(page, "`start`", "start"), served
		},
	} {
		changed, fields := change()
		require.Equal(t, []string{name}, compare("Query", changed, fields))
	}
}

var word = regexp.MustCompile(`^([a-z_]+[0-9]*|UTC)$`)

// TestWordsAreDocumented: for each field that takes one of several words, the page lists
// those of the decoder.
func TestWordsAreDocumented(t *testing.T) {
	seen := 0
	for of, f := range forms() {
		for _, r := range tables(read(t, f.page), "fields of "+of) {
			if f.at == nil {
				continue
			}
			for _, name := range r.names() {
				query := object(t, of)
				path := with(query, f.at, name, "?")
				said, _ := asked(t, query, path)
				_, list, takesWords := strings.Cut(said, "known: ")
				if !takesWords {
					continue
				}
				seen++
				var shown []string
				for _, one := range between(r[1]) {
					if word.MatchString(one) {
						shown = append(shown, one)
					}
				}
				require.ElementsMatch(t, strings.Split(list, ", "), shown, "%s.%s", of, name)
			}
		}
	}
	require.GreaterOrEqual(t, seen, 16)
}

// value returns a default or limit of a page as JSON.
func value(text string) any {
	text = strings.ReplaceAll(text, ",", "")
	var out any
	if err := json.Unmarshal([]byte(text), &out); err == nil {
		return out
	}
	return text
}

// TestDocumentedDefaults: setting a field to its documented default changes nothing.
func TestDocumentedDefaults(t *testing.T) {
	seen := 0
	for of, f := range forms() {
		if f.at == nil {
			continue
		}
		for _, r := range tables(read(t, f.page), "fields of "+of) {
			given := between(r[2])
			if len(given) != 1 || r[2] != "`"+given[0]+"`" || given[0] == "null" || slices.Contains(r.names(), "index") {
				continue
			}
			seen++
			for _, name := range r.names() {
				without, query := object(t, of), object(t, of)
				if of == "Shard" || of == "Sample" && name == "rate" {
					without, query = map[string]any{"dataset": "d", "shard": map[string]any{}, "sample": map[string]any{"hash": []any{0, 0.5}}},
						map[string]any{"dataset": "d", "shard": map[string]any{}, "sample": map[string]any{"hash": []any{0, 0.5}}}
				}
				if name == "nulls" {
					with(without, f.at, "join", "overlay")
					with(query, f.at, "join", "overlay")
				}
				path := with(query, f.at, name, value(given[0]))
				said, got := asked(t, query, path)
				require.Empty(t, said, path)
				_, want := asked(t, without, path)
				require.NotEmpty(t, want.Canonical())
				require.Equal(t, string(want.Canonical()), string(got.Canonical()), "%s.%s is not %s by default", of, name, given[0])
			}
		}
	}
	require.GreaterOrEqual(t, seen, 20)
}

// TestDocumentedBounds: the documented minimum and maximum of a number are enforced.
func TestDocumentedBounds(t *testing.T) {
	seen := 0
	for of, f := range forms() {
		if f.at == nil {
			continue
		}
		for _, r := range tables(read(t, f.page), "fields of "+of) {
			m := regexp.MustCompile(`^(?:a number, at least ([\d,]+)|([\d,]+) to ([\d,]+))$`).FindStringSubmatch(r[1])
			if m == nil {
				continue
			}
			seen++
			minValue, maxValue := value(m[1]+m[2]), value(m[3])
			for _, name := range r.names() {
				probe := func(v any) string {
					query := object(t, of)
					path := with(query, f.at, name, v)
					said, _ := asked(t, query, path)
					return said
				}
				low, _ := minValue.(float64)
				require.Regexp(t, "must be at least|outside|not 0|must be above", probe(low-1), "%s.%s", of, name)
				require.NotContains(t, probe(low), "must be at", "%s.%s", of, name)
				if high, bounded := maxValue.(float64); bounded {
					require.Regexp(t, "must be at most", probe(high+1), "%s.%s", of, name)
					require.NotContains(t, probe(high), "must be at", "%s.%s", of, name)
				}
			}
		}
	}
	require.GreaterOrEqual(t, seen, 10)
}
