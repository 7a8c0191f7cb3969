// Package function has the functions that expressions call by name.
//
// Bind finds a function and checks the types of its arguments. The result computes a column from
// the columns of the arguments, with a loop over typed slices. Each function means the same as the
// functions of DuckDB and Spark (in ANSI mode) that its Signature names. For inputs on which
// these engines differ, the function fails with Invalid, and the error names the values of the row.
// The exceptions, such as hash, have no counterpart in the engines; docs/spec/expressions.md defines them.
//
// The result of a row is null if an argument is null, except where the Signature says otherwise.
// Values under nulls have no effect and never fail.
//
// The package is pure. All memory of results and of scratch space that grows with the rows comes
// from the allocator of the caller, and Size bounds it. Bounds may be used by several goroutines at
// the same time.
package function
