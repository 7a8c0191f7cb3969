// Package joined reads ranges of a plan as joined rows: training rows from a scan, joined
// with the build sides of the staging tables, after the post-join filter.
//
//	scan ─► repeated rows dropped ─► SectionSpec.Transform ─► join ─► post-join filter ─► OpenRange
//
// A Joins is shared by all streams of a server, and with it their build sides. A Ranges
// belongs to one stream, and counts what the joins did. Its Lanes open ranges and prefetch
// upcoming ones. Each OpenRange starts at any row of its range. A range that is opened again
// after its rows were taken back (Rewind, Discard) counts each row once.
//
// The package does not know how rows are permuted: the caller appends columns to the
// training rows before the join (SectionSpec.Transform) and finds them in the joined batches.
//
// A joined batch has the training columns first, then those that Transform appended, then
// one dictionary column for the columns that are constant within a request, if they are
// indexed, then one dictionary column per staging table. Ranges.Columns tells where each
// output is.
package joined
