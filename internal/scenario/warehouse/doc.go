// Package warehouse writes random cases as real Iceberg tables and reads them
// as the server does: through icebergcat and scan.
//
// The tables get a history that a case does not have: format versions, commits
// of several writers, columns that were added, renamed, promoted or replaced
// in between, with initial defaults, files without field ids, snapshots that have
// expired. Where nobody knows any more which rows were written first, and it matters,
// this version must refuse them; everything else must be read as the same world in
// memory is, row by row. Iceberg's metadata is written by iceberg-go and
// data files by arrow-go, with statistics of our own, so that nothing of the
// product writes what it reads.
//
// Only tests import it.
package warehouse
