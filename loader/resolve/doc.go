// Package resolve binds a dataset to pinned tables: names become columns,
// filters are typed, rules find their columns, and splits of the training
// table find the files of staging tables that can hold their keys
// (docs/spec/resolve.md).
//
// It is pure: it does no I/O. All faults of a dataset are reported together. It guarantees
// about matching: a staging row whose key equals a training row's, and which the time
// rules of the entry allow to match, is always in the files that are matched with the
// training row's split, whatever the layouts. For buckets this holds since b ≡ c (mod
// gcd(n, m)) if both are derived from one hash; for other partitions and for
// statistics, since they are compared as ranges of source values, which may be too
// wide but never too narrow.
package resolve
