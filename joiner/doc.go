// Package joiner joins the rows of one range: a stream of training rows, which
// probe any number of build sides on equal keys. A build side is the staging
// rows of one file group, indexed by key.
//
// It is pure: it knows keys and batches, not tables, files or clocks. The join
// is a late gather: staging columns are not copied beside training rows. Each
// build side adds one dictionary column of int32 references into its rows,
// whose columns are the fields of the dictionary's struct. References are never
// null; row 0 of every dictionary stands for "no match": it holds the defaults,
// and null where there are none. Training rows keep their order, whatever the
// build sides hold.
//
// [Build] makes a [BuildSide] of staging rows, as its [BuildSpec] says, and
// [Join] streams training rows past all build sides in one pass; a [Rule]
// judges the matches of each. A BuildSide never changes once it is built, so
// that several joins, of one stream or of many, may share it.
//
// How keys are searched is a strategy, each in a file of its own: a hash index,
// a search in sorted keys (merge, zip), or one that somebody else brings as a
// [Custom]. None changes a row, nor the order. Rows of one key are put in their
// order once, when the build side is made; a join chooses among them by
// position.
//
// What a join probes is an interface, [Probeable], so that rows that do not fit
// in memory may lie elsewhere. Who implements it needs no more than this:
//
//   - [Keys] are the keys and times of a batch. A [KeyReader] reads them from
//     any stream; [Keys.Slice] divides rows by a hash of their keys, alike for
//     training and staging rows.
//   - A [Matcher] gives the [Matches] of each batch: a dictionary, a reference
//     for each row, and how many staging rows match where they are several.
//   - A [RowMatcher] is that of a BuildSide, and tells which rows match: with it
//     some rows at a time are joined in memory by the same rules.
//   - A [RowOrder] orders rows that do not lie in one BuildSide.
//   - A [Shape] is what rows become. Build makes it, of a stream without rows
//     too.
package joiner
