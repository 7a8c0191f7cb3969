package duckdb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// program returns DuckDB as a module of Python.
func program(t *testing.T) Program {
	t.Helper()
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python with DuckDB; make test-go sets it")
	}
	t.Setenv("PATH", filepath.Dir(python))
	p, err := Find(t.Context())
	require.NoError(t, err)
	return p
}

// All columns are read if the SQL may refer to one without its name.
//
// spec: stage-181, stage-182, stage-183
func TestNamesInSQL(t *testing.T) {
	p := program(t)
	content, err := os.ReadFile(filepath.Join("testdata", "names.json")) // the cases of the Python package, too
	require.NoError(t, err)
	var cases []struct {
		SQL           string
		Tables, Needs []string
		Pinned        bool
		Refused       bool
	}
	require.NoError(t, json.Unmarshal(content, &cases))
	for _, c := range cases {
		q, err := p.Parse(t.Context(), c.SQL, Options{Folder: t.TempDir()})
		if c.Refused {
			require.Equal(t, fault.Invalid, fault.KindOf(err), c.SQL)
			continue
		}
		require.NoError(t, err, c.SQL)
		require.ElementsMatch(t, c.Tables, q.Tables(), c.SQL)
		require.Equal(t, c.Pinned, q.Pinned(), c.SQL)
		if len(c.Tables) > 0 {
			require.Equal(t, c.Needs, q.Needs([]string{"a", "B", "c"}), c.SQL)
		}
	}
}
