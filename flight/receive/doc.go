// Package receive passes streams of other servers to trainers on this host (docs/spec/receiver.md,
// docs/adr/0085-receivers-on-the-hosts-of-trainers.md). It is the part of a server that delivers blocks, with the stream of another
// server in the place of a lane.
//
// The service has one method, DoGet. It redeems the ticket at the server that the call names, with the
// headers of the call, and passes on everything that the server sends: the schema, the report, headers,
// the status and trailers. Batches become blocks in the ring of the call's session. A batch that cannot
// become a block is passed on as it came.
//
// The guarantees are:
//   - the service connects only to the servers that it was started for, and keeps no headers of calls;
//   - the memory of a stream is charged before the stream begins. A stream is read no faster than its
//     client takes blocks;
//   - nothing in a message is trusted: see package rowsin;
//   - a stream has no position of its own. If it breaks, the client resumes it with its last cursor.
package receive
