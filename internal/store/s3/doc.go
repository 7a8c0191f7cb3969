// Package s3 is the store of files on S3 and on what speaks its protocol: locations
// s3://bucket/key, s3a:// and s3n://, of any bucket.
//
// What a request costs is its round trip, so there are few: a file whose size is known
// is opened without one, and each read is one ranged GET into the memory of the caller.
// A file of unknown size is opened by a read of its head, which then serves what lies
// in it: metadata is mostly read whole so.
//
// A response is taken only if it is what was asked for: status 206, exactly the range,
// of an object of exactly the known length, with the tag (ETag) of the first response,
// and a body of just so many bytes. Another length or tag is Corrupt: somebody has
// replaced the file. Anything else that is not right is a broken transfer. It is tried
// again from where it broke, as are responses that say so (500, 503 Slow Down, 429) and
// connections that fail or fall silent: some times, after a growing and random while.
// What then still fails is Unavailable, as is what is refused; a missing key is
// store.Missing. There is never short data.
//
// It writes nothing but metadata that is committed to a catalog: whole files, by one
// request that makes no file which is there already.
//
// Nobody waits beyond the end of its context, and nothing is left behind.
package s3
