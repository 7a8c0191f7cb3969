package duckdb

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Query is a SELECT statement. It is not safe for concurrent use.
type Query struct {
	program Program
	options Options
	text    string
	names   *names
	stable  []string
	casts   []string // expressions for columns of the result whose types tables do not have; set by Describe
}

// Parse parses a query.
//
// Errors: Invalid for a syntax error, and for a text that is not exactly one SELECT.
func (p Program) Parse(ctx context.Context, sql string, o Options) (*Query, error) {
	q := &Query{program: p, options: o, text: strings.TrimRight(sql, "; \t\r\n")}
	if strings.TrimSpace(q.text) == "" {
		return nil, refused("the SQL is empty")
	}
	const stable = "(SELECT list(f) FROM (SELECT lower(function_name) AS f FROM duckdb_functions() GROUP BY 1 HAVING bool_and(stability IS NOT DISTINCT FROM 'CONSISTENT')))"
	var found parsed
	if err := q.written(ctx, "parsed.json", fmt.Sprintf("SELECT json_serialize_sql(%s) AS tree, %s AS stable", quote(q.text), stable), &found); err != nil {
		return nil, err
	}
	switch tree := found.Tree; {
	case tree.Error && tree.Position != "":
		return nil, refused("DuckDB: Parser Error: %s, at position %s of the SQL", tree.Message, tree.Position)
	case tree.Error:
		return nil, refused("DuckDB: %s", tree.Message).WithRemedy("write one SELECT")
	case len(tree.Statements) != 1:
		return nil, refused("it has %d statements", len(tree.Statements)).WithRemedy("write one SELECT")
	}
	var err error
	q.stable = found.Stable
	q.names, err = namesOf(found.Tree.Statements[0])
	return q, err
}

// Tables returns the names of the tables of catalogs that the query reads, sorted.
func (q *Query) Tables() []string { return q.names.list() }

// Needs returns those of a table's columns that the query may refer to, in the same order. It
// returns at least one column if there is one.
func (q *Query) Needs(columns []string) []string {
	if q.names.every {
		return columns
	}
	needed := slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return !q.names.words[strings.ToLower(c)] })
	if len(needed) == 0 && len(columns) > 0 {
		needed = columns[:1] // for the number of rows
	}
	return needed
}

// Pinned reports whether the result depends only on the text of the query and on the rows of
// Tables: the query reads no files, and calls no function such as now or random.
func (q *Query) Pinned() bool { return q.names.pinned(q.stable) }

// Text returns the text of the query, without a semicolon at the end.
func (q *Query) Text() string { return q.text }

// Describe checks the query with tables that have all of their columns and may have no rows, and
// writes a result without rows to a Parquet file, whose path it returns. Describe must be called
// before Write.
//
// Errors: Invalid for a query that DuckDB refuses, and for columns that have no name of their own
// or no type in Iceberg.
func (q *Query) Describe(ctx context.Context, tables []Table) (string, error) {
	describe := "SELECT list({column_name: column_name, column_type: column_type}) AS columns FROM (DESCRIBE\n" + q.text + "\n)"
	var found struct {
		Columns []Column `json:"columns"`
	}
	script, err := q.provide(tables)
	if err != nil {
		return "", err
	}
	if err := q.writtenWith(ctx, script, "columns.json", describe, &found); err != nil {
		return "", err
	}
	q.casts = nil
	for i, c := range found.Columns {
		repeated := slices.ContainsFunc(found.Columns[:i], func(o Column) bool { return strings.EqualFold(o.Name, c.Name) })
		switch to := storable(c.Type); {
		case repeated:
			return "", refused("several columns of the result have the name %s", c.Name).WithRemedy("give each column a name of its own with AS")
		case to != "":
			q.casts = append(q.casts, fmt.Sprintf("CAST(%s AS %s) AS %s", name(c.Name), to, name(c.Name)))
		case strings.Contains(c.Type, "HUGEINT"): // which Parquet stores as DOUBLE
			return "", refused("column %s has type %s, which tables do not have", c.Name, c.Type).WithRemedy("cast its values to BIGINT")
		}
	}
	return q.copied(ctx, script, "empty.parquet", " LIMIT 0")
}

// Write computes the rows with the given tables, and writes them to a Parquet file, whose path it
// returns. Values of a type that tables do not have are cast: sums of whole numbers, which have 128
// bits, become BIGINT, and a sum that does not fit is an error.
//
// Errors: Invalid for errors of DuckDB, Exhausted if DuckDB needs more memory.
func (q *Query) Write(ctx context.Context, tables []Table) (string, error) {
	script, err := q.provide(tables)
	if err != nil {
		return "", err
	}
	return q.copied(ctx, script, "result.parquet", "")
}

// storable returns the type to which values of a type are cast, because tables do not have the
// type; "" if the values are not cast. A cast of a value that does not fit is an error of DuckDB.
func storable(of string) string {
	switch of {
	case "TINYINT", "SMALLINT", "UTINYINT", "USMALLINT":
		return "INTEGER"
	case "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT":
		return "BIGINT"
	case "TIMESTAMP_S", "TIMESTAMP_MS":
		return "TIMESTAMP"
	case "JSON":
		return "VARCHAR"
	}
	if strings.HasPrefix(of, "ENUM(") && strings.HasSuffix(of, ")") {
		return "VARCHAR"
	}
	return ""
}

// copied writes the result of the query to a Parquet file of the folder.
func (q *Query) copied(ctx context.Context, script, file, limit string) (string, error) {
	columns := "*"
	if len(q.casts) > 0 {
		columns += " REPLACE (" + strings.Join(q.casts, ", ") + ")"
	}
	path := filepath.Join(q.options.Folder, file)
	return path, q.program.run(ctx, fmt.Sprintf("%sCOPY (SELECT %s FROM (\n%s\n)%s) TO %s (FORMAT parquet, COMPRESSION zstd);\n", script, columns, q.text, limit, quote(path)))
}

// provide returns the statements that make a session in which the tables exist.
func (q *Query) provide(tables []Table) (string, error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+";\n", args...) }
	line("SET temp_directory = %s", quote(filepath.Join(q.options.Folder, "temporary")))
	line("SET TimeZone = 'UTC'") // as Penstock reads times
	if q.options.Memory > 0 {
		line("SET memory_limit = '%dB'", q.options.Memory)
	}
	if q.options.Disk > 0 {
		line("SET max_temp_directory_size = '%dB'", q.options.Disk)
	}
	attached := map[string]bool{}
	for _, t := range tables {
		parts := q.names.tables[t.Name]
		if len(parts) == 0 {
			return "", fault.New(fault.Internal, "the SQL does not read table %s", t.Name)
		}
		if len(parts) == maxParts && !attached[parts[0]] {
			attached[parts[0]] = true
			line("ATTACH ':memory:' AS %s", name(parts[0]))
		}
		quoted := make([]string, len(parts))
		for i, part := range parts {
			quoted[i] = name(part)
		}
		line("CREATE SCHEMA IF NOT EXISTS %s", strings.Join(quoted[:len(quoted)-1], "."))
		line("CREATE VIEW %s AS SELECT * FROM read_parquet(%s)", strings.Join(quoted, "."), quote(t.File))
	}
	return b.String(), nil
}

// written runs a query that returns one row, and decodes the row.
func (q *Query) written(ctx context.Context, file, query string, into any) error {
	return q.writtenWith(ctx, "", file, query, into)
}

// writtenWith is written in a session that a script makes.
func (q *Query) writtenWith(ctx context.Context, script, file, query string, into any) error {
	path := filepath.Join(q.options.Folder, file)
	if err := q.program.run(ctx, fmt.Sprintf("%sCOPY (%s) TO %s (FORMAT json);\n", script, query, quote(path))); err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fault.New(fault.Internal, "read what DuckDB wrote: %w", err)
	}
	return nil
}
