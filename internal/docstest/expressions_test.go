package docstest

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
)

const expressionsPage = "docs/expressions.md"

// valuesOf returns the values of an expression, or its error.
func valuesOf(text string, rows arrow.RecordBatch) ([]string, error) {
	parsed, err := expr.ParseValue(text)
	if err != nil {
		return nil, err
	}
	bound, err := parsed.Bind(rows.Schema())
	if err != nil {
		return nil, err
	}
	values, err := bound.Evaluate(rows, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	out := make([]string, values.Len())
	for i := range out {
		out[i] = "null"
		if values.IsValid(i) {
			out[i] = strings.Clone(values.ValueStr(i))
		}
	}
	return out, nil
}

// TestExpressionExamples: every example of the page has the documented values.
func TestExpressionExamples(t *testing.T) {
	page := read(t, expressionsPage)
	rows := exampleRows(t, page)
	examples := tables(page, "values")
	require.Greater(t, len(examples), 10)
	for _, r := range examples {
		got, err := valuesOf(strings.ReplaceAll(filterOf(r), `\|`, "|"), rows)
		require.NoError(t, err, filterOf(r))
		require.Equal(t, r[1:1+len(got)], row(got), filterOf(r))
	}
	refused := tables(page, "refused values")
	require.Greater(t, len(refused), 5)
	for _, r := range refused {
		_, err := valuesOf(filterOf(r), rows)
		require.ErrorContains(t, err, r[1], filterOf(r))
	}
}
