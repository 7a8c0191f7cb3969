package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// place is where each field of a query is named.
type place struct {
	file    string
	pattern string // of a line that names a field, with %s for its name
}

// places returns the places that name every field of a query. Tests of their packages check
// what a place does with a field.
func places() []place {
	return []place{
		{"loader/dataset", "`json:\"%s[,\"]"}, // the canonical text
		{"loader/dataset/decode/query.go", `\{name: "%s"`},
		{"python/src/penstock/fields.py", `(?m)^    %s: `},
		{"docs/queries.md", "(?m)^\\| `%s` \\|"},
	}
}

// content returns the text of a file, or of all Go files of a folder.
func content(t *testing.T, path string) string {
	t.Helper()
	at := filepath.Join(root, path)
	if file, err := os.Stat(at); err == nil && !file.IsDir() {
		return read(t, path)
	}
	files, err := filepath.Glob(filepath.Join(at, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, path)
	var all strings.Builder
	for _, f := range files {
		all.WriteString(read(t, filepath.Join(path, filepath.Base(f))))
	}
	return all.String()
}

// inQueries returns the name that queries use for a field of dataset.Rows or dataset.Reading.
func inQueries(field string) string {
	switch field {
	case "Inline":
		return "dataset"
	case "Pin":
		return "snapshots"
	case "Requests":
		return "batch_requests"
	}
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(field, "${1}_$2"))
}

// missingPlaces returns the places that do not name a field of the given structures.
func missingPlaces(t *testing.T, of ...reflect.Type) []string {
	t.Helper()
	var missing []string
	for _, at := range places() {
		text := content(t, at.file)
		for _, one := range of {
			for f := range one.Fields() {
				name := inQueries(f.Name)
				if name == "dataset" && at.file == "python/src/penstock/fields.py" {
					continue // an argument of its own
				}
				if name == "with" && at.file == "python/src/penstock/fields.py" {
					name = "with_" // with is a keyword
				}
				if !regexp.MustCompile(fmt.Sprintf(at.pattern, name)).MatchString(text) {
					missing = append(missing, fmt.Sprintf("%s lacks %s.%s (%s)", at.file, one.Name(), f.Name, name))
				}
			}
		}
	}
	return missing
}

// missingIdentities returns the fields that change no ticket, which contains the canonical
// text of its query, and the fields of Rows that change no plan key, which contains the
// digest of the query's rows.
func missingIdentities(t *testing.T) []string {
	t.Helper()
	var full dataset.Query
	datasettest.Fill(t, &full)
	var missing []string
	for _, of := range []string{"Rows", "Reading"} {
		fields := reflect.ValueOf(full).FieldByName(of)
		for f := range fields.Type().Fields() {
			var q dataset.Query
			reflect.ValueOf(&q).Elem().FieldByName(of).FieldByIndex(f.Index).Set(fields.FieldByIndex(f.Index))
			if f.Name != "Requests" && string(q.Canonical()) == string(dataset.Query{}.Canonical()) { // batch_requests decides it
				missing = append(missing, fmt.Sprintf("a ticket lacks %s.%s", of, f.Name))
			}
			if of == "Rows" && f.Name != "Inline" && f.Name != "With" && q.Digest() == (dataset.Rows{}).Digest() { // the digest of a dataset is its Dataset
				missing = append(missing, fmt.Sprintf("a plan key lacks %s.%s", of, f.Name))
			}
		}
	}
	return missing
}

// TestPlacesNameEveryFieldOfAQuery lists all places that a new field is missing from.
func TestPlacesNameEveryFieldOfAQuery(t *testing.T) {
	missing := missingPlaces(t, reflect.TypeFor[dataset.Rows](), reflect.TypeFor[dataset.Reading]())
	for _, place := range append(missing, missingIdentities(t)...) {
		t.Error(place)
	}
}

// TestMissingPlacesAreFound looks for a field that no place names.
func TestMissingPlacesAreFound(t *testing.T) {
	type reading struct{ NewField int }
	found := missingPlaces(t, reflect.TypeFor[reading]())
	require.Len(t, found, len(places()))
	require.Equal(t, "loader/dataset lacks reading.NewField (new_field)", found[0])
}
