// Package spectest checks that every numbered sentence of docs/spec is cited by a test,
// and that every citation is of an existing sentence. docs/spec/README.md defines the
// form of both.
package spectest
