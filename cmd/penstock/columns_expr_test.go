package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// --columns takes an array with expressions, as a query does. An expression in place of a name is named as a whole.
func TestColumnsWithExpressions(t *testing.T) {
	l := newWrittenLake(t, `
  clicks: {training: {table: features.rows}, key: [id]}
`, map[string]string{"rows": rowsOf("label", 0, 2)})
	cat := func(columns string) ran {
		return run(t, "cat", "clicks", "--format", "csv", "--columns", columns, "--config", l.config)
	}
	got := cat(`["id", {"column": "more", "expr": "coalesce(label, 0) + 1"}]`)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "id,more\n")
	got = cat("id, coalesce(label, 0)")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "coalesce(label, 0)")
	require.Contains(t, cat("[id]").stderr, "--columns: [id] is not JSON")
	require.Contains(t, cat("id , label").stdout, "id,label\n")
}
