// Package s3 is the store of files on S3 and on stores that speak its protocol: locations
// s3://bucket/key, s3a:// and s3n://, of any bucket.
//
// The cost of a request is its round trip, so the package makes few. A file of known size
// is opened without a request, and each read is one ranged GET into the caller's memory.
// A file of unknown size is opened by reading its head, from which later reads are served
// as far as it goes: most metadata files fit into it.
//
// A response is accepted only if it is exactly what was asked for: status 206, the
// requested range, of an object of the known length, with the ETag of the first response,
// and a body of that length. Another length or ETag is Corrupt: the file was replaced.
// Any other difference is a broken transfer. A broken transfer is retried from where it
// broke, as are errors that ask for it (500, 503 Slow Down, 429) and connections that fail
// or fall silent, with a growing random delay. If the last retry fails, or the store
// refuses, the error is Unavailable. A missing key is store.Missing. A read never returns
// short data.
//
// Files are created on the condition that they do not exist (If-None-Match): a small file by
// one request, a longer one in parts, several of which are sent at a time while the next one
// is filled. Each file has a mark in its metadata. If the answer to the request that creates
// it is lost, the mark tells whether the file that is there is this one.
//
// No call outlives its context, and none is abandoned.
package s3
