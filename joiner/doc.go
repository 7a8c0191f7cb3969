// Package joiner joins one split in memory: a stream of training rows against
// the staging rows of its class, on equal keys.
//
// It is pure: it knows keys and batches, not tables, files or clocks. The
// join is a late gather: staging columns are not copied beside training rows.
// Each build side adds one dictionary column of int32 references into its
// rows, whose columns are the fields of the dictionary's struct. References
// are never null; row 0 of every dictionary stands for "no match": it holds
// the defaults, and null where there are none. Training rows keep their order,
// whatever the build side holds.
//
// [Build] makes a build side of staging rows, as its [BuildSpec] says, and [Join] streams
// the training side past any number of sides in one pass; a [Rule] judges the
// matches of each. A [BuildSide] never changes for those who use it once it is
// built, so that several joins, of one stream or of many, may share it.
//
// How keys are searched is a [Strategy], each in a file of its own: a hash
// index, a search in sorted keys (merge, zip), or one that somebody else brings
// as a [Custom]. None changes a row, nor the order. Rows of one key are put in
// their order once, when the side is built; a join chooses among them by
// position.
//
// What a join asks a side is an interface, [Probeable]: rows that do not fit
// into memory may answer from elsewhere, with another dictionary for each
// batch.
package joiner
