// Package resolve binds a dataset to pinned tables: names become columns,
// filters become typed, rules find their columns, and splits of the training
// table find the files of staging tables that can hold their keys
// (docs/spec/resolve.md).
//
// It is pure: values in, values out, no disk and no network. Every fault of a
// dataset is reported at once. What it promises about matching: a staging row
// whose key equals a training row's, and which the entry's rules of time let
// it match, is always among the files that the training row's split is matched
// with, whatever the layouts. Of buckets that holds because b ≡ c (mod
// gcd(n, m)) whenever both are taken from one hash; of other partitions and of
// statistics because they are compared as ranges of source values, which may
// be too wide and never too narrow.
package resolve
