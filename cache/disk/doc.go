// Package disk caches decoded column chunks as files in a folder on the server's local disk. The
// files outlive the process.
//
// A chunk is one column of one row group, as Arrow arrays of one type, or another value of a file that is
// derived from its rows, such as statistics, as structs. Its name is a [ColumnID],
// which contains no host and no absolute path. Callers offer chunks with [Tier.Put], which writes
// them in the background, and read them with [Tier.Get]. The package promises:
//
//   - Get returns exactly the chunk that was put, or nothing. It deletes a file that is damaged,
//     incomplete, of another version or of another column, and the caller decodes the column again.
//     Each block of a file has a checksum. Lengths, offsets and dictionary indices are checked even
//     if the checksums match, so that no content of a file can make arrays that fail later. The
//     checks do not detect a writer that forges values: only the process's user may have access to
//     the folder.
//   - A failure of the disk never becomes an error of the caller. Failures are counted in
//     [TierStats], and the first failure of each kind is logged.
//   - Files are read, not mapped. The caller's reservation covers the memory before it is allocated
//     (docs/adr/0042-the-disk-tier-is-read-not-mapped.md). Every call to the disk runs under
//     [store.Calls]: a call that hangs is abandoned, and keeps its memory and its reservation until
//     it returns. Until then, the tier neither reads nor writes.
//   - The files in the folder, complete or not, never exceed the limit. The size of a file is
//     reserved before it is written, rounded up to disk blocks, with an allowance for its directory
//     entry. To make room, the tier deletes chunks that are cheap to rebuild per byte and have not
//     been read for a long time.
//   - A file has a temporary name until it is complete. Opening the tier removes incomplete files
//     of killed processes, and lists the folder without opening the files. The times of reads are
//     not stored.
//   - Only one process uses a folder at a time. In other processes, Open fails with fault.Conflict,
//     and the caller runs without the tier.
package disk
