// Package store reads byte ranges of immutable files: the one way from
// Penstock to where table files lie.
//
// A location is what Iceberg metadata says: file:///path, file:/path or a
// plain absolute path. Every call takes the context of the one who waits for
// it; a store keeps none. A read gives all the bytes asked for or an error:
// there are no short reads and no io.EOF, so that nobody mistakes the end of
// a damaged file for the end of its rows.
//
// Kinds of failure, for every implementation (storetest holds them to it):
// a location that cannot be read by this version is Invalid; a file that is
// missing, is no plain file, or is shorter or longer than the metadata says
// is Corrupt, because the metadata named it; a range outside the file is
// Corrupt; storage that refuses or does not answer is Unavailable. A context
// that ends gives its own error. Every error names the file.
//
// The kernel does not interrupt every call when its caller's context ends: a
// disk that fails or a mount whose server is gone keeps it. [Calls] let the
// caller go on all the same, and leave such a call behind; a [Bounded] does so
// for every call of a store. A read that was left behind still writes into the
// memory that it was given, which [WhenReturned] says the end of.
package store

import "context"

// SizeUnknown is the size to Open a file with whose size nobody knows.
const SizeUnknown int64 = -1

// Store opens the files of one kind of storage. It is safe for concurrent use.
type Store interface {
	// Open makes an object for the file at a location. The size is in bytes,
	// as the table's metadata has it, or SizeUnknown; a file of another size
	// is Corrupt, found at Open or at the first read. The caller closes the
	// object.
	Open(ctx context.Context, location string, size int64) (Object, error)
}

// Object is one open file that does not change. It is safe for concurrent use
// until Close.
type Object interface {
	// ReadAt fills p with the bytes from off on, or fails: then what p holds
	// is not to be used, and p is the store's until WhenReturned says of the
	// error that the read has returned. Before that the caller neither uses p
	// again nor gives it to anybody, and gives no charge for it back. An empty p
	// reads nothing and succeeds inside the file.
	ReadAt(ctx context.Context, p []byte, off int64) error
	// Size is the file's length in bytes.
	Size() int64
	// Location is what Open was asked for.
	Location() string
	// Close gives the object's resources back. It is called once, after the
	// last call of ReadAt; it does not wait for reads that were left behind.
	Close() error
}
