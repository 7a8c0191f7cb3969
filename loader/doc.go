// Package loader puts the flow together: a query becomes a plan, and a plan
// read for one shard becomes a stream of joined batches.
//
//	query ─► catalog ─► resolve ─► plan ─► scan ─► joiner ─► lane ─► stream
//
// Batches flow that way, and calls go against it: a lane pulls,
// ranges.openRange opens its next range with joiner.Join, and that pulls training
// rows from a scan and asks package buildside for what they probe, which reads
// staging rows through scans of its own.
//
// Two methods hold the product: Plan and Open. Plan reads metadata alone.
// Open reads nothing before the first Next.
//
// Ownership, here and in every stage: a batch is valid until the next call of
// Next or Release on its reader; Retain it to keep it longer; whoever opens a
// reader releases it. Memory is used again after the last Release.
package loader
