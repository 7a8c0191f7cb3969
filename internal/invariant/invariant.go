// Package invariant holds assertions that cost nothing in release builds.
//
// With the build tag "invariants" a broken assertion panics; without it, On
// is the constant false and the compiler drops what stands behind it. Tests
// run with the tag. Assertions are for our own bugs alone: input from users,
// files and the network is checked always, and answered with an error.
package invariant
