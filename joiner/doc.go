// Package joiner joins the rows of one range: a stream of training rows probes
// any number of build sides on equal keys. A build side is the staging rows of
// one file group, indexed by key.
//
// The package is pure: it knows keys and batches, not tables, files or clocks. The
// join is a late gather: staging columns are not copied beside training rows.
// Each build side adds one dictionary column of int32 references to its rows,
// whose columns are the fields of the dictionary's struct. References are never
// null; row 0 of every dictionary stands for "no match": it holds the defaults,
// and null where there are none. Training rows keep their order, whatever the
// build sides hold.
//
// [Build] makes a [BuildSide] from staging rows, as a [BuildSpec] defines, and
// [Join] streams training rows past all build sides in one pass; a [Rule]
// decides on the matches of each. A BuildSide never changes once it is built, so
// that several joins, of one stream or of many, can share it.
//
// A strategy defines how keys are searched, each in a file of its own: a hash
// index, a search of sorted keys (merge, zip), or a [Custom] one from outside of
// this package. None changes rows or their order. The rows of one key are sorted
// once, when the build side is built; a join chooses among them by position.
//
// A join probes an interface, [Probeable], so that rows that do not fit in memory
// can be stored elsewhere. These types are all that an implementation needs:
//
//   - [Keys] are the keys and times of a batch. A [KeyReader] reads them from
//     any stream; [Keys.Slice] divides rows by a hash of their keys, in the same
//     way for training and staging rows.
//   - A [Matcher] returns the [Matches] of each batch: a dictionary, a reference
//     for each row, and the number of matching staging rows where there are
//     several.
//   - A [RowMatcher] is the Matcher of a BuildSide and also returns the staging
//     rows themselves, so that a part of the rows can be joined in memory by the
//     same rules.
//   - A [RowOrder] orders rows that are not in one BuildSide.
//   - A [Schema] describes the result. Build makes it, also from a stream without
//     rows.
package joiner
