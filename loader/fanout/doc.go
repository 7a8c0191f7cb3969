// Package fanout lets equal streams share their batches: one scan, one join and one cut for
// all jobs of a sweep (docs/adr/0033-equal-streams-share-their-batches.md).
//
//	member ─┐
//	member ─┼─► group (a window of steps) ─► stream.ShardReader
//	member ─┘
//
// A Loader opens members, which are streams. Members of one key (key.go) that stand at the same
// place form a group. The member that needs the next step reads it, others that need it wait,
// and the last steps stay in the group's window. Nobody waits for a slower member: who falls
// behind the window begins a group of its own, and joins another one where that stands at the
// very same place.
//
// Each member is a parked ShardReader that takes the group's steps, so its cursors, counts and
// report are those of a stream alone. It reads by itself where steps of a group do not fit: in
// the step in which its limit lies.
//
// Invariants, all guarded by Sharer.mu:
//   - a group has members, or was removed from its Sharer;
//   - a group's window holds consecutive steps that end at its front;
//   - at most one member reads for a group at a time (pulling), and only it uses the reader;
//   - the windows of all groups have at most Options.Window bytes.
package fanout
