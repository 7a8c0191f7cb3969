package docstest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
)

// TestDocumentedLimits: the documented fixed limits are those of the sources.
func TestDocumentedLimits(t *testing.T) {
	const set, decoder, wire, inbound, filter = "loader/dataset", "loader/dataset/decode", "flight", "flight/inbound", "internal/expr"
	limits := map[string][2]string{
		"staging tables of a dataset":                                {set, "MaxStaging"},
		"columns of a join key":                                      {decoder, "maxKeys"},
		"columns of one list":                                        {decoder, "maxColumns"},
		"bytes of the name of a table, column, branch, tag or entry": {decoder, "maxName"},
		"lanes of a plan, and so shards":                             {set, "MaxLanes"},
		"DataLoader workers of a shard (`every`)":                    {decoder, "maxWorkers"},
		"rows, or requests, of a batch":                              {set, "MaxBatchRows"},
		"rows of a shuffle window":                                   {set, "maxShuffleWindow"},
		"bytes of a filter":                                          {filter, "MaxText"},
		"bytes of a query":                                           {decoder, "maxBytes"},
		"bytes of a ticket":                                          {"flight/ticket", "maxTicket"},
		"bytes of a message from a client":                           {inbound, "MaxRequest"},
		"bytes of the headers of a call":                             {inbound, "maxHeaderBytes"},
		"calls of a connection at a time":                            {inbound, "maxCalls"},
		"bytes of a message to a client":                             {wire, "DefaultMaxMessage"},
		"bytes of a failure's details":                               {"flight/failure", "MaxDetails"},
		"members of a mix":                                           {"flight/admission", "maxMixStreams"},
	}
	rows := tables(read(t, "docs/config.md"), "limits")
	require.Len(t, rows, len(limits))
	for _, r := range rows {
		of, known := limits[r[0]]
		require.True(t, known, r[0])
		require.Equal(t, constant(t, of[0], of[1]), strings.ReplaceAll(r[1], ",", ""), r[0])
	}
	require.Contains(t, read(t, "docs/queries.md"), "| `shuffle_window` | 1 to 16,777,216 | 131,072 |")
	require.Contains(t, read(t, "docs/queries.md"), "| `shuffle_parts` | 1 to 64 | 8 |")
	require.Equal(t, "131072", constant(t, set, "DefaultShuffleWindow"))
	require.Equal(t, "200", constant(t, filter, "maxDepth"))
	require.Contains(t, read(t, filtersPage), "200 nested parentheses")
}

// TestReportFieldsAreDocumented: the page has exactly the fields of summaries, reports and
// verifications.
func TestReportFieldsAreDocumented(t *testing.T) {
	page := read(t, "docs/reports.md")
	seen := 0
	for mark := range marks(page) {
		of, ok := strings.CutPrefix(mark, "fields of ")
		require.True(t, ok, mark)
		var named []string
		for _, r := range tables(page, mark) {
			named = append(named, r.names()...)
		}
		slices.Sort(named)
		require.Equal(t, jsonFields(t, of), named, of)
		seen++
	}
	require.Equal(t, 37, seen)
	var named []string
	for _, r := range tables(read(t, "docs/errors.md"), "fields of a failure") {
		named = append(named, r.names()...)
	}
	require.ElementsMatch(t, jsonFields(t, "failure.Details"), named)
	for _, name := range jsonFields(t, "stream.RequestReport") {
		require.Contains(t, page, "`"+name+"`")
	}
}

// TestExceptionsAreDocumented: the exception for each kind of failure is the one of the
// Python package with that kind.
func TestExceptionsAreDocumented(t *testing.T) {
	python := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^class (\w+)\(Error\):.*\n(?:.*\n)*?    kind = "([a-z ]+)"`).FindAllStringSubmatch(read(t, "python/src/penstock/errors.py"), -1) {
		python[m[2]] = m[1]
	}
	page := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([a-z ]+) \\| [A-Z_]+ \\| `(\\w+)` \\|").FindAllStringSubmatch(read(t, "docs/errors.md"), -1) {
		page[m[1]] = m[2]
	}
	require.Len(t, page, 10)
	require.Equal(t, python, page)
}

// TestCatalogTypesAreDocumented: the types of a page are those that are served, and it says which cannot be written to.
func TestCatalogTypesAreDocumented(t *testing.T) {
	var names, readOnly []string
	for _, of := range dataset.CatalogTypes() {
		names = append(names, of.Name)
		if of.ReadOnly {
			readOnly = append(readOnly, of.Name)
		}
	}
	for _, r := range tables(read(t, "docs/config.md"), "properties of every catalog") {
		switch r.names()[0] {
		case "type":
			require.ElementsMatch(t, names, between(r[1]))
		case "writes.namespaces":
			_, not, _ := strings.Cut(r[3], "Not for ")
			require.ElementsMatch(t, readOnly, between(not))
		}
	}
}

// TestCatalogPropertiesAreDocumented: the properties of every catalog are those of the
// config's sources.
func TestCatalogPropertiesAreDocumented(t *testing.T) {
	var named []string
	for _, r := range tables(read(t, "docs/config.md"), "properties of every catalog") {
		named = append(named, r.names()...)
	}
	m := regexp.MustCompile(`func everyCatalog\(\) \[\]string \{\s*return \[\]string\{(.*?)\}\s*\}`).FindStringSubmatch(read(t, filepath.Join("internal", "config", "catalogs.go")))
	require.NotNil(t, m)
	require.ElementsMatch(t, strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", "), named)
}
