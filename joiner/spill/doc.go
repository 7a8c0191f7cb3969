// Package spill keeps staging rows on local disk that do not fit in memory,
// and joins them from there: the same rows in the same order, with the same
// counts and errors, as [joiner.Build] would have them in memory.
//
// There are two ways. [Divide] writes a stream in [Parts], each of which can be
// read without the others; the caller says which part a row belongs to. [Slice]
// writes staging rows in slices by a hash of their key: a [Sliced] is probed
// like a build side in memory.
//
// A join with a Sliced has two passes. The first reads the keys of its training
// rows, divides them by the same hash, loads slice after slice as a
// [joiner.BuildSide], and writes a match log: for each slice, in the order of
// its training rows, what each of them matches, and the staging rows that they
// match. The second is the join itself: for each training row it reads the next
// entry of the row's slice. So training rows keep their order, and every file
// is read from front to back.
//
// A slice that does not fit in memory, be it for one key of very many rows, is
// loaded in portions. Training rows that take one staging row each are answered
// from the rows that win in some portion; those that take all of them from runs,
// which are put together portion by portion, or merged.
//
// The package sees the joiner through what any [joiner.Probeable] needs: keys
// and their slices ([joiner.KeyReader]), what training rows match in a
// build side in memory ([joiner.RowMatcher]), and the order of rows
// ([joiner.RowOrder]).
package spill
