// Package fanout lets streams of the same rows share the work of reading them: one scan and one
// join for all jobs of a sweep, and one cut for all streams with equal batches
// (docs/adr/0033-equal-streams-share-their-batches.md,
// docs/adr/0035-streams-take-views-of-shared-steps.md).
//
//	member ─┐
//	member ─┼─► group (a window of blocks) ─► stream.StepReader
//	member ─┘
//
// A SharingLoader opens members, which are streams. Members with equal keys (key.go) and equal
// positions form a group. When the first member needs the next step, it reads the step; other
// members that need the same step wait for it. The last steps stay in the group's window. No member
// waits for a slower member: a member that falls behind the window leaves the group and begins a
// new one. It joins another group as soon as it reaches a position that the other group serves.
//
// Members may need different columns and batch sizes (batchSpec). A group's reader reads the union
// of their columns, in batches that contain theirs, and each member takes a view of the reader's
// step (block). If the steps in a group's window lack columns or rows that a stream needs, the
// stream can still approach the group: it reads these steps itself, and the group reads the
// following steps for this stream too.
//
// Each member is a parked ShardReader that takes the group's steps, so its cursors, counts and
// report are those of a stream that shares nothing. A member reads alone if it cannot take the
// group's next step, for example if the member reaches its limit in that step.
//
// Invariants, all guarded by Sharer.mu:
//   - a group has members, or was removed from its Sharer;
//   - a group's window holds consecutive steps that end at its front;
//   - at most one member reads for a group at a time (pulling), and only it uses the reader;
//   - the windows of all groups have at most Options.Window bytes.
package fanout
