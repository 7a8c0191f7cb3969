// Package loadertest has the tables, cases and streams that the tests of the loader and of
// the packages below it share.
package loadertest
