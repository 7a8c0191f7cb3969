// Package spool stores record batches on local disk that do not fit in memory.
//
// A [Spool] is a folder with a limit in bytes, shared by the whole process. A [File] in it stores
// batches of any schemas. Each batch can be read by its number, repeatedly and concurrently. The
// package promises:
//
//   - No file is left behind. A file is unlinked when it is created, so that the system
//     frees it with the last descriptor, even after a kill. On systems that cannot do
//     that, the last Release removes the file, and the next process that opens the folder
//     removes those of a killed process.
//   - Memory is bounded. Writing copies through a small buffer; reading makes one
//     allocation of a batch's size, which the caller reserves first.
//   - A batch is read as it was written, or fails: each has a checksum.
//   - Try finds a folder that cannot be used before it is needed.
//   - A batch beyond the limit fails with Exhausted before anything is written. Failures of
//     the disk are Unavailable and name the folder.
//
// Batches are stored as Arrow IPC messages without compression.
package spool
