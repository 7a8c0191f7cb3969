// Package warehouse writes random cases as real Iceberg tables and reads them like the server,
// through icebergcat and scan.
//
// The tables get a history that a case does not have. It has format versions, commits of several
// writers, columns that were added (perhaps with initial defaults), renamed, promoted or replaced,
// files without field ids, and expired snapshots. If the order in which rows were written is no
// longer known, and this order matters, the product must refuse the tables. All other tables must
// be read row by row like the same tables in memory. iceberg-go writes the metadata of the tables,
// and arrow-go writes the data files. This package computes their statistics. So the product never
// reads what it wrote itself.
//
// Only tests import it.
package warehouse
