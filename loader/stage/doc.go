// Package stage writes rows to a table: it checks their columns against the table's, sorts them
// into the table's partitions, writes each partition as data files, and commits these as
// one change.
//
// A Stager does the steps in this order. The token is looked for first: a change that was
// made before returns its snapshot, and no row is read. Rows are sorted within the budget and
// on local disk. Until the commit, nothing of the table has changed; after a failure the
// uploads are discarded, and the files that are complete are removed unless it is uncertain
// whether the change was made.
//
// The package knows catalogs, storage and disks by interfaces that it declares.
package stage
