// Package resolve binds a dataset to pinned tables. It resolves the names of columns, types filters
// and checks the rules of the dataset. It also matches files: for a split of the training table, it
// finds the files of the staging tables that can contain the split's keys (docs/spec/resolve.md).
//
// The package does no I/O. It reports all faults of a dataset together. It guarantees that no match
// is lost, whatever the layouts: if a staging row has the key of a training row, and the entry's
// time rules allow the match, the staging row's file is among the files matched with the training
// row's split. For buckets, this follows from b ≡ c (mod gcd(n, m)) if both buckets are derived
// from the same hash. Other partitions and statistics are compared as ranges of source values,
// which may be too wide but never too narrow.
package resolve
