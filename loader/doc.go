// Package loader connects the stages: a query becomes a plan, and a plan read for one
// shard becomes a stream of joined batches.
//
//	query ─► catalog ─► resolve ─► plan ─► scan ─► joiner ─► lane ─► stream
//
// Batches flow in the direction of the arrows, and calls in the opposite one: a lane opens its next
// range through a function (lane.Open), which is implemented with package joined. A joined range is
// a joiner.Join. It pulls training rows from a scan, and gets its build sides from package
// buildside, which reads staging rows through other scans.
//
// The two main methods are Plan and Open. Plan reads only metadata. Open reads nothing
// before the first Next.
//
// Ownership, here and in every stage: a batch is valid until the next call of Next or Release on
// its reader; call the batch's Retain to keep it longer. The code that opens a reader releases it.
// The memory of a batch may be reused after its last Release.
package loader
