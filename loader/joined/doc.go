// Package joined reads ranges of a plan as joined rows: training rows from a scan, joined
// with the build sides of the staging tables, after the post-join filter.
//
//	scan ─► repeated rows dropped ─► SectionSpec.Transform ─► join ─► post-join filter ─► OpenRange
//
// All streams of a server share one Joins, and through it their build sides. A Ranges belongs to
// one stream, and counts what the stream's joins matched and cost. Its Lanes open ranges and
// prefetch upcoming ones. An OpenRange may start at any row of its range. If a range is opened
// again after its counts were dropped (Rewind, Discard), each row counts once.
//
// The package does not know how rows are permuted: the caller appends columns to the
// training rows before the join (SectionSpec.Transform) and finds them in the joined batches.
//
// A joined batch has the training columns first, then those that Transform appended, then one
// dictionary column for the columns that are constant within a request, if they are indexed, then
// one dictionary column per staging table. Ranges.Columns reports which of these columns holds each
// output.
package joined
