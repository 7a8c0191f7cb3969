// Package spill joins staging rows that do not fit in memory, from local disk. Rows, their
// order, counts and errors are the same as with [joiner.Build] in memory.
//
// There are two ways. [Partition] writes a stream as [Partitions], each of which can be
// read without the others; the caller defines which partition a row belongs to. [Slice]
// writes staging rows in slices by a hash of their key: a [Sliced] is probed
// like a build side in memory.
//
// A join with a Sliced takes two passes. The first reads the keys of its training rows,
// divides them by the same hash, loads one slice after another as a [joiner.BuildSide], and
// writes a match log. For each slice, the log has the matches of each training row, in the
// order of these rows, and the staging rows that match. The second pass is the join itself:
// for each training row it reads the next entry of the row's slice. So training rows keep
// their order, and every file is read sequentially.
//
// A slice that does not fit in memory, even if all its rows have one key, is loaded in
// portions. If the rule chooses one staging row for a training row, it is chosen among the
// winners of all portions. If the rule returns all matches, they are the runs of all portions,
// concatenated or merged.
//
// The package uses only what any implementation of [joiner.Probeable] needs: keys
// and their slices ([joiner.KeyReader]), the matches of training rows in a build
// side in memory ([joiner.RowMatcher]), and the order of rows
// ([joiner.RowOrder]).
package spill
