// Package deptest has the import graph of the module as a table, and a test that fails
// for every import that is not in the table.
//
// The direction of imports is the architecture: values at the bottom, pure steps above
// them, then the loader, the wire and the commands. A new package, edge or library is a
// decision that must be added to the table. The package also checks that every row of
// the table has a folder, that every package has a package comment and a meaningful
// name, that code outside their packages does not compare enumerated words (CheckWords),
// that nothing depends on cleared memory (CheckMemory), that make test-random runs the
// whole of each test that runs in part in make test and under the race detector (CheckShares),
// and that the decision records in docs/adr are numbered without gaps or duplicates.
//
// The test's own process opens and parses the sources. If it ran "go list" instead, go
// test would not know that the result depends on them, and could return a cached "pass"
// for a broken tree.
package deptest
