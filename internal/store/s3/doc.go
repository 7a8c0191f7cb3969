// Package s3 is the store of files on S3 and on stores that speak its protocol: locations
// s3://bucket/key, s3a:// and s3n://, of any bucket.
//
// The cost of a request is its round trip, so the package makes few requests. A file of known size
// is opened without a request, and each read is one ranged GET into the caller's memory. A file of
// unknown size is opened by reading its head, that is, its first bytes. Later reads take what they
// can from the head, into which most metadata files fit completely.
//
// A response is accepted only if it is exactly what was asked for: status 206, the requested range,
// of an object of the known length, with the ETag of the first response, and a body of that length.
// If the length or the ETag differs, the file was replaced, and the read fails with Corrupt. Any
// other difference is a broken transfer. The package retries broken transfers, errors that ask for
// a retry (500, 503 Slow Down, 429), and connections that fail or fall silent. Each retry continues
// where the transfer broke, after a growing random delay. If the last retry fails, or the store
// refuses the request, the error is Unavailable. For a missing key, the error is store.Missing. A
// read never returns fewer bytes than requested.
//
// Files are created on the condition that they do not exist (If-None-Match). A small file is
// created by one request. A longer file is sent in parts, several at a time while the next part is
// filled. Each file has a mark in its metadata. If the answer to the request that creates a file is
// lost, the mark shows whether a file that is there now was created by that request.
//
// No call outlives its context, and none is abandoned.
package s3
