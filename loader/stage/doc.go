// Package stage writes rows to a table: it checks their columns against the table's, sorts them
// into the table's partitions, writes each partition as data files, and commits these as
// one change.
//
// A Stager first looks for the token of the request. If an earlier call made the change, the Stager
// returns its snapshot and reads no row. When all rows are read, a request that is to be made once is also
// compared by a digest of its rows. Rows are sorted within the memory budget and on local
// disk. The rows of the table do not change before the commit. After a failure, the Stager discards
// unfinished uploads. It also removes complete files, unless it is unknown whether the change was
// made.
//
// The package uses catalogs, storage and disks only through interfaces.
package stage
