// Package stream reads one shard of a plan as batches, each with a cursor, and reports
// what it read.
//
//	joined.OpenRange ─────────────► lane.Reader ─► ShardReader     rows as stored
//	sections of parts ─► shuffle ─► lane.Reader ─► ShardReader     rows permuted within windows
//
// A ShardReader begins at the position of its cursors (shard.go). It opens the final sequence of
// each range (sequences.go) or, if the plan permutes rows within windows, of each run
// (permuted.go). A run reads its parts at the same time, and each part section by section
// (part_reader.go). A lane.Reader cuts the sequences into batches of the requested layout. A
// ShardReader can be parked: it then releases everything except its position, including its
// lane.Reader. A new lane.Reader later continues with the next row. The progress of a ShardReader
// is the sum over its lane.Readers, and determines what is left to read (remaining.go).
//
// Streams of the same rows can share them: a StepReader reads steps (step_reader.go), and the
// streams, whose own ShardReaders are parked, take these steps (take.go).
//
// Check checks whether a query's reading fits its plan. CountLanes counts the rows of a plan's
// lanes without returning them.
package stream
