// Package expr is the filter language: SQL conditions as text, bound to the
// types of a schema, evaluated exactly on batches, and used to skip files and
// row groups that cannot hold a matching row.
//
// # The language
//
//	a = 1   a <> 1   a != 1   a < 1   a <= 1   a > 1   a >= 1   1 < a   a < b
//	a IN (1, 2)   a NOT IN (1, 2)   a BETWEEN 1 AND 5   a NOT BETWEEN 1 AND 5
//	a IS NULL   a IS NOT NULL   flag   NOT flag   TRUE   FALSE   AND   OR   NOT   ( )
//	a LIKE 'x%'   a NOT LIKE '%x_y'
//
// Names are plain, or quoted as "two words" with "" for a quote; they match
// columns exactly, case included. Keywords match in any case. A dotted name
// is a path into a struct; paths are read, and refused by Bind, as this version
// does not serve them.
//
// LIKE compares whole strings with a pattern: % is any number of characters (code
// points), _ is one. \%, \_ and \\ in it stand for %, _ and \ themselves.
//
// Literals: 12, -1.5, 2e-3, 'text' with its quotes doubled, TRUE, FALSE, X'00ff',
// DATE '2026-10-01', TIME '12:30:00.5', TIMESTAMP '2026-10-01 12:00:00.25' with
// an optional Z or offset such as +02:00. Numbers are exact decimals of any
// size up to 1,000 digits. NULL is not a literal: IS NULL asks for it.
//
// # What a filter means
//
// A row passes if the filter is TRUE under SQL's three-valued logic; FALSE
// and NULL both drop it. Comparisons with a null are NULL.
//
//   - Integers, decimals, dates, times and timestamps compare exactly with
//     literals of any precision: a < 1.5 on an integer is a <= 1, and a
//     literal beyond the type's range compares as the number that it is.
//   - Floats: a literal is rounded to the nearest value of the column's type,
//     so that score = 0.1 finds what was written as 0.1. A literal beyond the
//     type's range lies between the largest finite value and infinity.
//   - NaN is ordered as SQL engines do (Spark, DuckDB, PostgreSQL): equal to
//     itself and greater than everything else, infinity included. -0 equals 0.
//     Bounds in files leave NaN out, so MayMatch trusts an upper bound of a
//     float column only where NaN are known to be absent.
//   - Text and binary compare by bytes, which is code point order for text.
//     FALSE is less than TRUE. Text in the form of a UUID is accepted for
//     fixed-size binary columns of 16 bytes, as uuid columns are.
//   - A DATE literal against a timestamp is its midnight. A timestamp without
//     an offset against a column with a zone is read as UTC; one with an offset
//     against a column without zone is an error. Text in the same forms is
//     accepted for date, time and timestamp columns.
//   - Columns compare with columns of the same family: integers with integers,
//     and so on; decimals of one scale, times of one unit.
//   - Lists, structs, maps and types that tables do not have (int8, and so on)
//     are served for IS NULL alone; dictionary columns not at all.
//
// Expr and Filter are immutable and safe for concurrent use.
package expr
