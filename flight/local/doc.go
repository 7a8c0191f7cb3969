// Package local delivers batches in mapped memory to clients on the same host
// (docs/adr/0034-batches-in-mapped-memory.md, docs/spec/local.md).
//
// A client connects to a Unix socket and gets a session. The client names the session in a DoGet.
// To deliver a batch, the server passes a segment of memory over the session's connection, and the
// stream then sends the number of this delivery instead of the batch. Over the same connection, the
// client reports which deliveries its reader has seen, and which segments it no longer uses. A
// session serves one stream. After the stream has ended, the session continues until the client has
// returned the last segment.
//
// The guarantees are:
//   - only processes of the server's user get a session;
//   - a segment is written to again only after every session that had it has returned it. A session
//     that ends, or whose client forks, has not returned its segments: they are closed, not reused;
//   - a client that stops reading has at most maxUnseen deliveries that its reader has not seen.
package local
