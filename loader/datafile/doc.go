// Package datafile writes rows as the data files of a table. It matches the columns of the rows to
// the columns of the table, sorts the rows by partition, and writes each partition as Parquet
// files.
//
// Match returns the Target of rows, or an error that names all columns that do not fit. A Call then
// sorts the rows, in memory within the budget and on local disk, and writes them as Files. The
// files do not belong to the table until the caller commits them. If the change is not made, the
// caller discards them.
//
// The package accesses storage and local disk through interfaces, and does not access the catalog.
package datafile
