package store

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
)

// Reserve reserves memory before it is allocated, and may wait. The handle releases it. A
// nil Reserve reserves nothing.
type Reserve func(ctx context.Context, bytes int64) (*release.Handle, error)

// Uploader writes files of any length. A file appears complete or not at all, and never
// replaces another one. It is safe for concurrent use.
type Uploader interface {
	// Begin begins a file at a location. Folders are made as needed. The store reserves
	// each buffer of the upload from reserve before it allocates it, until the buffer is
	// free again. The caller ends the upload by Finish, Abort, or both.
	Begin(ctx context.Context, location string, reserve Reserve) (Upload, error)
}

// Upload is a file that is being written. Until Finish succeeds, no file is at its
// location; a process that ends before leaves an unfinished upload, which FolderLister reports.
// Its calls must not overlap. After a call has failed, only Abort may follow.
type Upload interface {
	// Write appends p. It may wait until storage has taken earlier bytes, or until memory is
	// free. When it returns without an error, the caller may use p again. After an error, the
	// store may keep a reference to p and read it.
	Write(ctx context.Context, p *memory.Buffer) error
	// Finish completes the file, and returns when it is durable. It fails with Conflict if
	// there is already a file, which it does not change. If UnknownOutcome holds for
	// its error, the file may be there, complete, now or later; after any other error it is
	// not there and will not be.
	Finish(ctx context.Context) error
	// Abort discards what was written, and returns when the upload holds no more memory,
	// except that of abandoned calls, which stays reserved until they return. It never
	// removes a complete file: after Finish has succeeded it does nothing, and after an
	// unknown outcome it only discards an upload that is not complete. An error means that
	// the unfinished upload may remain. Abort may be called again.
	Abort(ctx context.Context) error
	// Location returns the location given to Begin.
	Location() string
}

// unknownOutcome is the error of a failed call that may nevertheless have changed storage.
type unknownOutcome struct{ err error }

func (e *unknownOutcome) Error() string { return e.err.Error() }
func (e *unknownOutcome) Unwrap() error { return e.err }

// WithUnknownOutcome marks the error of a call that may nevertheless have changed storage, because
// the answer was lost. It returns nil for nil.
func WithUnknownOutcome(err error) error {
	if err == nil || UnknownOutcome(err) {
		return err
	}
	return &unknownOutcome{err}
}

// UnknownOutcome reports whether a failed call may nevertheless have changed storage. If so, the
// caller must check whether the file is at its location.
func UnknownOutcome(err error) bool {
	_, unknown := errors.AsType[*unknownOutcome](err)
	return unknown
}

// Ended returns the error for a call of an upload that has already failed or ended. Implementations
// share it.
func Ended(location string) error {
	return fault.New(fault.Internal, "file %s is written to after its upload has failed or ended", location).In("", location)
}
