// Package store reads byte ranges of immutable files, and creates, lists and removes files.
// All files of tables are read and written through it.
//
// A location is what Iceberg metadata contains: file:///path, file:/path, a plain absolute
// path, or a location on remote storage, which a Kind describes. Every call takes the context
// of its caller; a store keeps none. A read returns all the bytes asked for or an error. There
// are no short reads and no io.EOF, so the end of a damaged file cannot be taken for the end
// of its rows.
//
// The kinds of failure are the same for every implementation (storetest checks them):
// a location that this version cannot read is Invalid. A file that is missing, not
// regular, or shorter or longer than the metadata says is Corrupt, because the metadata
// named it. So is a range outside the file. Storage that refuses or does not answer is
// Unavailable. A context that ends returns its own error. Every error names the file.
//
// Files never change: whatever creates one ([Writer], [Uploader]) fails with Conflict where
// there is one. If the answer of storage is lost, the error says so: see [UnknownOutcome].
//
// The kernel does not interrupt every call when its context ends: a call to a broken disk
// or to a mount without its server may block. [Calls] let the caller continue and leave
// such a call behind; a [Bounded] does so for all calls of a store. A read that was left
// behind still writes to the memory that it was given until it returns. So reads take a
// reference-counted buffer: the caller releases its reference whenever it likes, a Bounded
// keeps one of its own until the call has returned, and the last release frees the memory
// and what it is charged to. Decorators pass the buffer on.
package store

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// SizeUnknown is the size to Open a file with if its size is not known.
const SizeUnknown int64 = -1

// Store opens the files of one kind of storage. It is safe for concurrent use.
type Store interface {
	// Open opens the file at a location. The size is in bytes, from the table's
	// metadata, or SizeUnknown. If the file has another size, Open or the first read
	// fails as Corrupt. The caller closes the object.
	Open(ctx context.Context, location string, size int64) (Object, error)
}

// Object is an open file that does not change. It is safe for concurrent use until Close.
type Object interface {
	// ReadAt fills p with the bytes from off on, or returns an error. After an error the
	// content of p is undefined and may still change, while the store has a reference to p:
	// the caller must not use it anymore, except to release its own reference. Without an
	// error, the store has none. An empty p reads nothing, and succeeds if off is inside the
	// file. If p has memory of the garbage collector, it needs no release.
	ReadAt(ctx context.Context, p *memory.Buffer, off int64) error
	// Size returns the file's length in bytes.
	Size() int64
	// Location returns the location given to Open.
	Location() string
	// Close releases the object. It is called once, after the last call of ReadAt. It
	// does not wait for reads that were left behind.
	Close() error
}
