// Package disk is the disk tier of the cache of decoded column chunks: files in a folder
// of the server's own disk, which outlive the process.
//
// A chunk is one column of one row group as Arrow arrays of one type, named by a
// [ColumnID] that depends on no host and no absolute path. Callers offer chunks with
// [Tier.Put], which are written in the background, and read them with [Tier.Get]. The
// package promises:
//
//   - What Get returns equals what was put, or Get returns nothing. A file that is
//     damaged, incomplete, of another version or of another column is deleted, and the
//     caller decodes the column again. Each block of a file has a checksum, and lengths,
//     offsets and dictionary indices are checked even if the checksums match, so that
//     no content of a file can make arrays that fail later. The checks do not detect a
//     writer that forges values: the folder must belong to the process's user alone.
//   - No failure of the disk is an error of its caller. Failures are counted in [TierStats],
//     and the first of each kind is logged.
//   - Files are read, not mapped, into memory that the caller's reservation covers
//     before it is allocated (docs/adr/0042-the-disk-tier-is-read-not-mapped.md). Every call to the disk
//     runs under [store.Calls]: one that hangs is left behind with its memory and its
//     charge. While such a call has not returned, the tier neither reads nor writes.
//   - The files in the folder, complete or not, never exceed the limit: their sizes are
//     reserved before they are written, rounded up to the blocks of a disk, with an
//     allowance for the entry in the folder. To make room, chunks are deleted that are
//     cheap to rebuild per byte and were not read for long.
//   - A file has a temporary name until it is complete. Opening the tier removes what a
//     killed process has left, and lists the folder without opening the files. How long
//     ago a chunk was read does not outlive the process.
//   - One process uses a folder at a time. For another one, Open fails as Conflict, and
//     the caller runs without the tier.
package disk
