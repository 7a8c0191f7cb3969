package duckdb

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
	every := []string{"a", "B", "c"}
	for _, c := range []struct {
		sql    string
		tables []string
		needs  []string
		pinned bool
	}{
		{"SELECT a FROM n.t", []string{"n.t"}, []string{"a"}, true},
		{"SELECT sum(b) OVER (PARTITION BY A ORDER BY n.t.a DESC) FROM lake.n.t, n.t;", []string{"lake.n.t", "n.t"}, []string{"a", "B"}, true},
		{"SELECT count(*) FROM n.t", []string{"n.t"}, []string{"a"}, true},
		{"SELECT x.c FROM n.t x LEFT JOIN n.u USING (b) WHERE x.c IN (SELECT 1)", []string{"n.t", "n.u"}, []string{"B", "c"}, true},
		{`WITH q AS (SELECT a, b FROM "n.m".t) SELECT a FROM q`, []string{"n.m.t"}, []string{"a", "B"}, true},
		{"SELECT * FROM n.t", []string{"n.t"}, every, true},
		{"FROM n.t", []string{"n.t"}, every, true},
		{"SELECT #1 FROM n.t", []string{"n.t"}, every, true},
		{"SELECT x FROM n.t x", []string{"n.t"}, every, true},
		{"SELECT t FROM n.t", []string{"n.t"}, every, true},
		{"SELECT x.p FROM n.t AS x(p, q)", []string{"n.t"}, every, true},
		{"SELECT q.p FROM (SELECT a, b FROM n.t) AS q(p, r)", []string{"n.t"}, every, true},
		{"WITH q(p) AS (SELECT a FROM n.t) SELECT p FROM q", []string{"n.t"}, every, true},
		{"SELECT a FROM n.t NATURAL JOIN n.u", []string{"n.t", "n.u"}, every, true},
		{"SELECT a FROM n.t UNION ALL SELECT b FROM n.t ORDER BY 1", []string{"n.t"}, []string{"a", "B"}, true},
		{"SELECT a FROM n.t TABLESAMPLE 10%", []string{"n.t"}, []string{"a"}, false},
		{"SELECT a FROM n.t WHERE c > now()", []string{"n.t"}, []string{"a", "c"}, false},
		{"SELECT a, current_date FROM n.t", []string{"n.t"}, []string{"a"}, false},
		{"SELECT a, random() FROM n.t", []string{"n.t"}, []string{"a"}, false},
		{"SELECT a FROM n.t JOIN 'f.parquet' USING (c)", []string{"n.t"}, []string{"a", "c"}, false},
		{"SELECT a FROM n.t, read_csv('f.csv')", []string{"n.t"}, every, false},
		{"SELECT 1 FROM information_schema.tables", nil, nil, false},
	} {
		q, err := p.Parse(t.Context(), c.sql, Options{Folder: t.TempDir()})
		require.NoError(t, err, c.sql)
		require.Equal(t, c.tables, q.Tables(), c.sql)
		require.Equal(t, c.pinned, q.Pinned(), c.sql)
		if c.tables != nil {
			require.Equal(t, c.needs, q.Needs(every), c.sql)
		}
	}
}
