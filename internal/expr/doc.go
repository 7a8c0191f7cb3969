// Package expr implements the filter language: SQL conditions as text, which are
// bound to the types of a schema, evaluated exactly on batches, and used to skip
// files and row groups without matching rows.
//
// # The language
//
//	a = 1   a <> 1   a != 1   a < 1   a <= 1   a > 1   a >= 1   1 < a   a < b
//	a IN (1, 2)   a NOT IN (1, 2)   a BETWEEN 1 AND 5   a NOT BETWEEN 1 AND 5
//	a IS NULL   a IS NOT NULL   flag   NOT flag   TRUE   FALSE   AND   OR   NOT   ( )
//	a LIKE 'x%'   a NOT LIKE '%x_y'
//
// Names are plain, or quoted as "two words" with "" for a quote. They match columns
// case-sensitively; keywords match in any case. A dotted name is a path into a
// struct: Parse accepts it, and Bind rejects it as not supported yet.
//
// LIKE matches whole strings against a pattern: % stands for any number of
// characters (code points), _ for one. \%, \_ and \\ stand for %, _ and \.
//
// Literals are 12, -1.5, 2e-3, 'text' with quotes doubled, TRUE, FALSE, X'00ff',
// DATE '2026-10-01', TIME '12:30:00.5', and TIMESTAMP '2026-10-01 12:00:00.25' with
// an optional Z or offset such as +02:00. Numbers are exact decimals of up to 1,000
// digits. NULL is not a literal: use IS NULL.
//
// # What a filter means
//
// A row passes if the filter is TRUE under SQL's three-valued logic. FALSE and
// NULL both drop it. Comparisons with a null are NULL.
//
//   - Integers, decimals, dates, times and timestamps compare exactly with
//     literals of any precision: for an integer, a < 1.5 means a <= 1. A literal
//     beyond the type's range keeps its value.
//   - For floats, a literal is rounded to the nearest value of the column's type,
//     so that score = 0.1 matches a value that was written as 0.1. A literal beyond
//     the type's range lies between the largest finite value and infinity.
//   - NaN is ordered as in SQL engines (Spark, DuckDB, PostgreSQL): equal to itself
//     and greater than all other values, including infinity. -0 equals 0. Bounds in
//     files ignore NaN, so MayMatch relies on an upper bound of a float column only
//     if the column is known to have no NaN.
//   - Text and binary values compare by bytes, which is code point order for text.
//     FALSE is less than TRUE. Fixed-size binary columns of 16 bytes, as uuid columns
//     are, also compare with text in the form of a UUID.
//   - A DATE literal compared with a timestamp is midnight of that day. A timestamp
//     without an offset is UTC if the column has a time zone; one with an offset is
//     an error if the column has none. Date, time and timestamp columns also compare
//     with text in the same forms.
//   - Columns compare with columns of the same family, such as integers with
//     integers; decimals need the same scale, times the same unit.
//   - Lists, structs, maps and types that tables do not have (int8, for example)
//     support only IS NULL and IS NOT NULL. Dictionary columns support nothing.
//
// Expr and Filter are immutable and safe for concurrent use.
package expr
