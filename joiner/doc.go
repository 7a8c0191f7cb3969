// Package joiner joins one split in memory: a stream of training rows against
// the staging rows of its class, on equal keys.
//
// It is pure: it knows keys and batches, not tables, files or clocks. The
// join is a late gather: staging columns are not copied beside training rows.
// Each staging side adds one dictionary column of int32 references into its
// rows, whose columns are the fields of the dictionary's struct. References
// are never null; row 0 of every dictionary is all null and stands for "no
// match". Training rows keep their order, whatever the staging side holds.
//
// The strategy is index: [Build] reads a staging side whole and indexes it by
// key, [Join] streams the training side past any number of sides in one pass.
// A [Side] never changes once it is built, so that several joins, of one
// stream or of many, may share it.
package joiner
