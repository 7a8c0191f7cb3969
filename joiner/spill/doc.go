// Package spill joins staging rows that do not fit in memory and are kept on local disk. The joined
// rows, their order, the counts and the errors are the same as with [joiner.Build] in memory.
//
// There are two ways. [Partition] divides a stream into [Partitions], and each partition can be
// read without the others; the caller defines which partition a row belongs to. [Slice] divides
// staging rows into slices by a hash of their key. The result, a [Sliced], is probed like a build
// side in memory.
//
// A join with a Sliced takes two passes. The first pass reads the keys of the training rows and
// divides them by the same hash. It then loads one slice after another as a [joiner.BuildSide], and
// writes a match log. For each slice, the log has an entry with the matches of each training row,
// in the order of the training rows, and it has the matching staging rows. The second pass is the
// join itself: for each training row, it reads the next entry of the row's slice. Training rows
// therefore keep their order, and every file is read sequentially.
//
// A slice that does not fit in memory, even if all its rows have one key, is loaded in portions. If
// the rule chooses one staging row for a training row, the row is chosen among the winners of all
// portions. If the rule returns all matches, the matches of each portion form a run, and the runs
// of all portions are concatenated or merged.
//
// The package uses only what any implementation of [joiner.Probeable] needs: keys
// and their slices ([joiner.KeyReader]), the matches of training rows in a build
// side in memory ([joiner.RowMatcher]), and the order of rows
// ([joiner.RowOrder]).
package spill
