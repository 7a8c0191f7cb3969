// Package fanout lets streams of the same rows share them: one scan and one join for all jobs of a
// sweep, and one cut for those with equal batches (docs/adr/0033-equal-streams-share-their-batches.md,
// docs/adr/0035-streams-take-views-of-shared-steps.md).
//
//	member ─┐
//	member ─┼─► group (a window of blocks) ─► stream.StepReader
//	member ─┘
//
// A SharingLoader opens members, which are streams. Members with equal keys (key.go) and equal
// positions form a group. The member that needs the next step reads it, other members that need
// it wait, and the last steps stay in the group's window. No member waits for a slower one: a
// member that falls behind the window begins a group of its own. It joins another group as soon
// as the two have equal positions.
//
// Members may need different columns and batch sizes (batchSpec). A group's reader reads the union
// of their columns and sizes, and a member takes a view of its step (block). If the steps of a
// group's window lack columns or rows that a stream needs, the stream comes to the group: it reads
// those steps itself, while the group reads the following ones for it too.
//
// Each member is a parked ShardReader that takes the group's steps, so its cursors, counts and
// report are those of a stream that shares nothing. It reads alone if it cannot take the
// group's next step, such as the step in which it reaches its limit.
//
// Invariants, all guarded by Sharer.mu:
//   - a group has members, or was removed from its Sharer;
//   - a group's window holds consecutive steps that end at its front;
//   - at most one member reads for a group at a time (pulling), and only it uses the reader;
//   - the windows of all groups have at most Options.Window bytes.
package fanout
