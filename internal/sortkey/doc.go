// Package sortkey orders rows of Arrow batches by columns, in the order that Iceberg defines for
// sorted files: numbers by value, texts and binary values by their bytes, false before true,
// and nulls first or last. Floats have a total order: -NaN, negative numbers, -0, 0, positive
// numbers, NaN; NaNs of one sign are equal.
//
// A key is read as a sequence of 64-bit chunks, each of which is compared as a number. All chunks
// of two keys are equal exactly if the keys are. A number is one chunk, or two if a chunk
// could not tell it from null; a text has one chunk for every seven bytes. So rows are
// sorted by radix, chunk by chunk ([Sort]), and merged by comparing their first chunks.
//
// The package is pure.
package sortkey
