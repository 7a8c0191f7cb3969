// Package deptest holds the import graph of the module as a table, and a test
// that fails on every edge the table does not have.
//
// The direction of imports is the architecture: values at the bottom, pure
// steps above them, the loader on top, the wire and the commands last. A new
// package, a new edge or a new library is a decision, so it is written into
// the table before it compiles green. The package promises more about the tree:
// every row of the table has its folder, every package says what it is for, no
// package has a name that says nothing, words that have a list are asked and not
// compared (CheckWords), no type of a package has the name of another package's
// (SharedTypeNames, with the exceptions of type_names.txt), and the decision records
// in docs/adr are numbered without
// gaps or twins.
//
// The sources are opened and parsed here, in the test's own process. A child
// process such as "go list" would read them unseen by go test's cache, which
// then answers "pass" for a tree that is broken.
package deptest
