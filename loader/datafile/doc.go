// Package datafile writes rows as the data files of a table: it matches their columns to the table's, sorts them into
// the table's partitions, and writes each partition as Parquet files.
//
// Match returns the Target of rows, or an error that names all columns that do not fit. A Call then sorts rows, within
// the budget and on local disk, and writes them as Files. No file is the table's until the caller commits it; the caller
// discards the files of a change that was not made.
//
// The package knows storage and disks by interfaces that it declares, and no catalog.
package datafile
