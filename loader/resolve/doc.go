// Package resolve binds a dataset to pinned tables: names become columns,
// filters become typed, and buckets of the training table find the buckets of
// staging tables that can hold their keys (docs/spec/resolve.md).
//
// It is pure: values in, values out, no disk and no network. Every fault of a
// dataset is reported at once. What it promises about matching: a staging row
// whose key equals a training row's is always among the files that the
// training row's bucket is matched with, for any two bucket counts, because
// b ≡ c (mod gcd(n, m)) holds whenever both are taken from one hash.
package resolve
