// Package local delivers batches in mapped memory to clients on the same host
// (docs/adr/0034-batches-in-mapped-memory.md, docs/spec/local.md).
//
// A client connects to a Unix socket and gets a session, which it names in a DoGet. Each delivery passes
// a segment over the session's connection, whose number the stream then sends instead of the batch. The
// client reports over the connection which deliveries its reader has seen, and which segments it no
// longer uses. A session is used by one stream, and outlives it until the client has returned the last
// segment.
//
// The guarantees are:
//   - only processes of the server's user get a session;
//   - a segment is written to again only if each session that had it has returned it. A session that
//     ends, or whose client forks, has not: its segments are closed instead of reused;
//   - a client that does not read has at most maxUnseen deliveries.
package local
