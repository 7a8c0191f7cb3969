// Package spool keeps record batches on local disk that do not fit in memory.
//
// A [Spool] is a folder and a limit in bytes, shared by the whole process. A
// [File] of it takes batches of any schemas and gives each of them back by its
// number, any number of times and to any number of goroutines at once. What it
// promises:
//
//   - Nothing is left behind. A file has no name from the moment it exists on:
//     the system frees it with the last descriptor, also after a kill. Where a
//     system cannot do that, the file is removed on Release, and what a killed
//     process left is removed when the next one opens the folder.
//   - Memory is bounded. Writing copies through a small buffer; reading makes
//     one allocation of a batch's size, which whoever reads reserves first.
//   - What is read is what was written, or an error: every batch has a
//     checksum.
//   - A folder that does not serve is found out by Try, before it is needed.
//   - The limit fails with Exhausted before anything is written; a disk that
//     fails is Unavailable and names the folder.
//
// Batches are stored as Arrow IPC messages without compression.
package spool
