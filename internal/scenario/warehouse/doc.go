// Package warehouse writes random cases as real Iceberg tables and reads them
// as the server does: through icebergcat and scan.
//
// The tables get a history that a case does not have: format versions, commits
// of several writers, columns that were added, renamed, promoted or replaced
// in between, with initial defaults, files without field ids, snapshots that have
// expired. If the order in which rows were written is not known anymore, and it matters,
// the product must refuse the tables; all others must be read like the same tables in
// memory, row by row. Iceberg's metadata is written by iceberg-go and
// data files by arrow-go, with statistics of this package, so that the product
// never reads what it wrote itself.
//
// Only tests import it.
package warehouse
