package docstest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
)

const filtersPage = "docs/filters.md"

// exampleRows returns the rows of the page's examples.
func exampleRows(t *testing.T, page string) arrow.RecordBatch {
	t.Helper()
	_, head, found := strings.Cut(page, "<!-- rows -->\n|")
	require.True(t, found)
	head, _, _ = strings.Cut(head, " |\n")
	types := map[string]arrow.DataType{
		"long": arrow.PrimitiveTypes.Int64, "string": arrow.BinaryTypes.String, "double": arrow.PrimitiveTypes.Float64,
		"decimal(9, 2)": &arrow.Decimal128Type{Precision: 9, Scale: 2}, "date": arrow.FixedWidthTypes.Date32,
		"timestamptz": &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, "boolean": arrow.FixedWidthTypes.Boolean,
	}
	var columns []arrow.Field
	for cell := range strings.SplitSeq(head, " |") {
		name, of, _ := strings.Cut(strings.TrimSpace(cell), " ")
		if name == "row" {
			continue
		}
		require.NotNil(t, types[of], of)
		columns = append(columns, arrow.Field{Name: name, Type: types[of], Nullable: true})
	}
	schema := arrow.NewSchema(columns, nil)
	var rows []map[string]any
	for i, r := range tables(page, "rows") {
		require.Equal(t, strconv.Itoa(i+1), r[0])
		out := map[string]any{}
		for j, column := range columns {
			switch text := r[j+1]; {
			case text == "null":
			case column.Type.ID() == arrow.STRING || column.Type.ID() == arrow.DATE32 || column.Type.ID() == arrow.TIMESTAMP || text == "NaN":
				out[column.Name] = text
			default:
				out[column.Name] = json.RawMessage(text)
			}
		}
		rows = append(rows, out)
	}
	text, err := json.Marshal(rows)
	require.NoError(t, err)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(string(text)))
	require.NoError(t, err)
	return batch
}

// passing returns the numbers of the rows that pass a filter, in the form of the page.
func passing(t *testing.T, text string, rows arrow.RecordBatch) string {
	t.Helper()
	parsed, err := expr.Parse(text)
	require.NoError(t, err, text)
	bound, err := parsed.Bind(rows.Schema())
	require.NoError(t, err, text)
	kept, err := bound.Evaluate(rows, nil, nil)
	require.NoError(t, err, text)
	var out []string
	for _, at := range kept {
		out = append(out, strconv.Itoa(int(at)+1))
	}
	return strings.Join(out, ", ")
}

// filterOf returns the filter in a row's first cell, which is in backticks.
func filterOf(r row) string { return strings.Trim(r[0], "`") }

// TestFilterExamples: every example of the page passes the documented rows.
func TestFilterExamples(t *testing.T) {
	page := read(t, filtersPage)
	rows := exampleRows(t, page)
	examples := tables(page, "filters")
	require.Greater(t, len(examples), 20)
	for _, r := range examples {
		require.Equal(t, r[1], passing(t, filterOf(r), rows), filterOf(r))
	}
	for _, said := range []string{"NOT country = 'de' OR TRUE", "TRUE OR TRUE AND FALSE"} { // NOT before AND before OR
		require.Equal(t, "1, 2, 3, 4", passing(t, said, rows))
	}
}

// TestRefusedFilters: every filter that the page lists as refused is, with the documented
// message.
func TestRefusedFilters(t *testing.T) {
	page := read(t, filtersPage)
	schema := exampleRows(t, page).Schema()
	examples := tables(page, "refused filters")
	require.Greater(t, len(examples), 5)
	for _, r := range append(examples, row{"`country = 1`", "country"}, row{"`s.a = 1`", "a"}) {
		parsed, err := expr.Parse(filterOf(r))
		if err == nil {
			_, err = parsed.Bind(schema)
		}
		require.ErrorContains(t, err, r[1], filterOf(r))
	}
}

// TestGrammar: the keywords, literals and operators of the page's grammar are valid.
func TestGrammar(t *testing.T) {
	page := read(t, filtersPage)
	_, grammar, found := strings.Cut(page, "```\n")
	require.True(t, found)
	grammar, _, _ = strings.Cut(grammar, "```\n")
	for _, op := range []string{"=", "<>", "!=", "<", "<=", ">", ">="} {
		require.Contains(t, grammar, "  "+op)
		_, err := expr.Parse("a " + op + " 1")
		require.NoError(t, err, op)
	}
	_, literals, found := strings.Cut(grammar, "literal     = ")
	require.True(t, found)
	seen := 0
	for literal := range strings.SplitSeq(strings.Join(strings.Fields(literals), " "), " | ") {
		seen++
		_, err := expr.Parse("a = " + literal)
		require.NoError(t, err, literal)
	}
	require.Equal(t, 10, seen)
	_, quoted, found := strings.Cut(page, "A column name that is a keyword (")
	require.True(t, found)
	quoted, _, _ = strings.Cut(quoted, ")")
	for _, keyword := range between(quoted) {
		_, err := expr.Parse(keyword + " = 1")
		require.Error(t, err, keyword)
		_, err = expr.Parse(`"` + keyword + `" = 1`)
		require.NoError(t, err, keyword)
	}
	require.Len(t, between(quoted), 10)
}
