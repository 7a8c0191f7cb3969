// Package duckdb computes rows with SQL for the command penstock stage, in the user's own DuckDB:
// the program duckdb, or the module duckdb of a Python on the PATH. Penstock contains no SQL engine.
//
// Parse finds the tables that a query names. The caller then provides each of them as a Parquet
// file: first without rows, so that Describe checks the query before any row is read, and then with
// rows, for Write. DuckDB is a process of its own with its own memory. Processes get a script on
// standard input, and write their results to files of the query's folder.
package duckdb

import (
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Options configure a query.
type Options struct {
	// Folder is a folder for the files of the query, and for what DuckDB moves to disk. It must be
	// empty, and exist until the query is no longer used.
	Folder string
	// Memory and Disk are the maximum bytes of memory and of disk that DuckDB uses; 0: DuckDB's
	// defaults.
	Memory, Disk int64
}

// Table is a table for DuckDB.
type Table struct {
	// Name is the name of the table in Penstock, which is also its name in the SQL.
	Name string
	// File is the path of a Parquet file with the rows of the table.
	File string
}

// Column is a column of the result.
type Column struct {
	Name string `json:"column_name"`
	Type string `json:"column_type"` // in DuckDB's words
}

// quote returns a text as a literal of SQL, and name as an identifier.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
func name(text string) string  { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

// refused returns the error for a query that DuckDB or this package refuses.
func refused(format string, args ...any) *fault.Error {
	return fault.InvalidField("sql", format, args...)
}
