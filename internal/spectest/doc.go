// Package spectest ties the numbered sentences of docs/spec to the tests that
// cite them, both ways: a sentence without a test is a promise that nobody
// keeps, and a citation of no sentence is a test that nobody asked for. The
// form of both is given in docs/spec/README.md.
package spectest
