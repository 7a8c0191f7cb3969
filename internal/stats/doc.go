// Package stats describes the values of columns by statistics that can be merged.
//
// A [Part] describes some rows of a table, such as those of a data file. Parts of the same columns merge
// into a part of all their rows, and a part has a [Summary] for people.
//
//   - Counts, minimum and maximum are exact. Means and deviations are those of all values, up to rounding.
//   - The number of distinct values is the estimate of a theta sketch (package theta) of all values.
//   - Quantiles and frequent values are those of a sample. [Sampling] decides for each row whether it is in the
//     sample, by its number in its file, so that all columns have the same sample.
//
// The package promises that a part depends only on the rows and their order. It does not depend on how the
// rows are cut into batches.
//
// A column is described by one or more series of values: a list has its lengths, its elements, and, if they
// are floats, its Euclidean norms, in which an embedding that was never filled is a zero.
package stats
