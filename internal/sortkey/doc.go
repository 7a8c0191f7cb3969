// Package sortkey orders rows of Arrow batches by columns, in the order that Iceberg defines for
// sorted files: numbers by value, texts and binary values by their bytes, false before true,
// and nulls first or last. Floats have a total order: -NaN, negative numbers, -0, 0, positive
// numbers, NaN; NaNs of one sign are equal.
//
// A key is read as a sequence of 64-bit chunks, each of which is compared as a number. Two keys are
// equal if and only if all of their chunks are equal. A number is one chunk, or two chunks if one
// could not be told from null; a text has one chunk for every seven bytes. So rows are sorted by
// radix, chunk by chunk ([Sort]), and merged by comparing their first chunks.
//
// The package does no input or output and keeps no state.
package sortkey
