package docstest

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

const pythonFields = "python/src/penstock/fields.py"

// pythonForms returns the types of the fields of Python's Query, by name. The words of a Literal are sorted.
func pythonForms(text string) map[string]string {
	out := map[string]string{}
	for _, class := range regexp.MustCompile(`(?m)^class (?:RunQuery|Query)\(.*\n(?:(?:    .*)?\n)*`).FindAllString(text, -1) {
		for _, m := range regexp.MustCompile(`(?m)^    (\w+): (.*) \| None$`).FindAllStringSubmatch(class, -1) {
			out[m[1]] = m[2]
			if words, ok := strings.CutPrefix(m[2], "Literal["); ok {
				out[m[1]] = literal(strings.Split(strings.TrimSuffix(words, "]"), ", "))
			}
		}
	}
	return out
}

// literal returns the type of quoted words.
func literal(quoted []string) string {
	return "Literal[" + strings.Join(slices.Sorted(slices.Values(quoted)), ", ") + "]"
}

// pythonFaults returns the differences between Python's Query and the fields of a query.
func pythonFaults(text string) []string {
	var faults []string
	forms := pythonForms(text)
	for _, f := range dataset.QueryFields() {
		name, want := f.Name, ""
		switch {
		case f.Name == "since": // JSON output has ids of snapshots as strings
			want = "SupportsIndex | str"
		case f.Number:
			want = "SupportsIndex"
		case f.Words != nil:
			var quoted []string
			for _, word := range f.Words {
				quoted = append(quoted, `"`+word+`"`)
			}
			want = literal(quoted)
		case f.Label:
			want = "str"
		}
		switch name {
		case "dataset":
			continue // an argument of its own
		case "with":
			name = "with_" // with is a keyword
		}
		form, known := forms[name]
		if !known || want != "" && form != want {
			faults = append(faults, fmt.Sprintf("Query.%s is %q, not %q", name, form, want))
		}
		delete(forms, name)
	}
	for name := range forms {
		faults = append(faults, "a query has no field "+name)
	}
	return faults
}

// TestPythonHasTheFieldsOfAQuery: Python's Query has the fields of a query, with their types.
func TestPythonHasTheFieldsOfAQuery(t *testing.T) {
	require.Empty(t, pythonFaults(read(t, pythonFields)))
}

// TestPythonDifferencesAreFound changes Python's fields, one at a time.
func TestPythonDifferencesAreFound(t *testing.T) {
	text := read(t, pythonFields)
	for want, change := range map[string][2]string{
		`Query.seed is "", not "SupportsIndex"`:                                {"    seed: SupportsIndex | None\n", ""},
		`Query.epoch is "str", not "SupportsIndex"`:                            {"    epoch: SupportsIndex | None\n", "    epoch: str | None\n"},
		`Query.tail is "Literal[\"keep\"]", not "Literal[\"drop\", \"keep\"]"`: {`Literal["keep", "drop"]`, `Literal["keep"]`},
		`Query.filter is "", not ""`:                                           {"    filter: str | None\n", ""},
		"a query has no field fresh":                                           {"    seed: SupportsIndex | None\n", "    seed: SupportsIndex | None\n    fresh: str | None\n"},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		require.NotEqual(t, text, changed, want)
		require.Equal(t, []string{want}, pythonFaults(changed))
	}
}

// TestIdentitiesCoverEveryFieldOfAQuery: each field changes the ticket, which contains the canonical
// text of its query, and each field of Rows changes the plan key, which contains the digest of the
// query's rows. A field of these structs that dataset.Fields lacks does neither.
func TestIdentitiesCoverEveryFieldOfAQuery(t *testing.T) {
	var full dataset.Query
	datasettest.Fill(t, &full)
	for _, of := range []string{"Rows", "Reading"} {
		fields := reflect.ValueOf(full).FieldByName(of)
		for f := range fields.Type().Fields() {
			var q dataset.Query
			reflect.ValueOf(&q).Elem().FieldByName(of).FieldByIndex(f.Index).Set(fields.FieldByIndex(f.Index))
			if f.Name != "Requests" { // batch_requests decides it
				require.NotEqual(t, string(dataset.Query{}.Canonical()), string(q.Canonical()), "a ticket lacks %s.%s", of, f.Name)
			}
			if of == "Rows" && f.Name != "Inline" && f.Name != "With" { // the digest of a dataset is its Dataset
				require.NotEqual(t, dataset.Rows{}.Digest(), q.Digest(), "a plan key lacks %s.%s", of, f.Name)
			}
		}
	}
}
