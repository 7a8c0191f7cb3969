// Package invariant holds assertions that cost nothing in release builds.
//
// With the build tag "invariants" a failed assertion panics. Without it, On is
// the constant false, and the compiler drops the code that it guards. Tests run
// with the tag. Assertions are for bugs in Penstock only: input from users, files
// and the network is always checked and rejected with an error.
package invariant
