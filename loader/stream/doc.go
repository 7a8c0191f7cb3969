// Package stream reads one shard of a plan as batches, each with a cursor, and reports
// what it read.
//
//	joined.OpenRange ─────────────► lane.Reader ─► ShardReader     rows as stored
//	sections of parts ─► shuffle ─► lane.Reader ─► ShardReader     rows permuted within windows
//
// A ShardReader begins at the position of its cursors (shard) and opens the final sequence of each
// range (sequences) or, if the plan permutes rows within windows, of each run (permuted): a run reads
// its parts at the same time, each section by section (part_reader). A lane.Reader cuts the sequences
// into batches of the requested layout. A ShardReader can be parked: it then releases everything
// except its position, and its next reader continues with the next row. Its progress is the sum over
// its readers, and determines what is left to read (remaining).
//
// Streams of the same rows can share them: a StepReader reads steps (step_reader), which the parked
// ShardReaders of the streams take (take).
//
// Check determines whether a query's reading fits its plan, and CountLanes counts the rows
// of a plan's lanes without returning them.
package stream
