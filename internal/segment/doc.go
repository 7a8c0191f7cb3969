// Package segment passes memory to other processes of this host (docs/adr/0034-batches-in-mapped-memory.md).
//
// A segment is a memfd. Its owner passes it over a Unix socket, and the receiver maps it. Seals guarantee
// to the receiver that the memory does not shrink under its mapping, and to the owner that no other
// process writes to it, except to a segment of NewWritable. All of it needs Linux; elsewhere, the
// functions return errors.
package segment
