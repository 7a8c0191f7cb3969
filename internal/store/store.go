// Package store reads byte ranges of immutable files, and creates, lists and removes files.
// All files of tables are read and written through it.
//
// A location is a name of a file in Iceberg metadata: file:///path, file:/path, a plain absolute
// path, or a location on remote storage, which a Kind describes. Every call takes the context of
// its caller; stores keep no contexts. A read returns all requested bytes or an error. There are no
// short reads and no io.EOF, so the end of a damaged file cannot be mistaken for the end of its
// rows.
//
// All implementations fail in the same ways, which storetest checks. A location that the store does
// not support is Invalid. A file is Corrupt if it is missing, is not regular, or does not have the
// size in the metadata, because the metadata names it. A range outside the file is Corrupt, too.
// Storage that refuses or does not answer is Unavailable. If a context ends, the error is the cause
// of the context. Every error names the file.
//
// Files never change: creating a file ([Writer], [Uploader]) fails with Conflict if the file
// exists. If the answer of storage is lost, the error is marked; see [UnknownOutcome].
//
// A call in the kernel cannot always be interrupted: a call to a broken disk or to a mount whose
// server is gone may block. With [Calls], the caller abandons such a call and continues; a
// [Bounded] does this for all calls of a store. Until an abandoned read returns, it may write to
// its memory. So reads take a reference-counted buffer. The caller may release its reference at any
// time, and a Bounded keeps another reference until the call has returned. The last release frees
// the memory and its reservation. Decorators pass the same buffer on.
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
	// ReadAt fills p with the bytes from off on, or returns an error. After an error, the store may
	// still have a reference to p and change its content, so the caller must not use p, except to
	// release its reference. After success, the store has no reference to p. If p is empty, ReadAt
	// reads nothing, and succeeds if off is inside the file. If the memory of p is on the Go heap,
	// p need not be released.
	ReadAt(ctx context.Context, p *memory.Buffer, off int64) error
	// Size returns the file's length in bytes.
	Size() int64
	// Location returns the location given to Open.
	Location() string
	// Close releases the object. It must be called once, after the last call of ReadAt. It does not
	// wait for abandoned reads.
	Close() error
}
