// Package upload has code that all writers of data files share. It charges to the budget the bytes
// of each file that is being written, and limits the time for removing the files of a failed call.
package upload

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet/chunk"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
)

// discardLimit is the time limit for removing files after a failure.
const discardLimit = time.Minute

// ReserveParts returns the function that an upload calls to reserve the memory of its parts.
func ReserveParts(b *budget.Budget) store.Reserve {
	return func(ctx context.Context, bytes int64) (*release.Handle, error) {
		held, err := b.ReserveFor(ctx, "parts of data files", bytes)
		if err != nil {
			return nil, err
		}
		return release.New(held.Release), nil
	}
}

// NewDestination returns a Destination that writes the bytes of a file to an upload. If a caller
// stops waiting for a write, the bytes of this write stay reserved until the write returns.
func NewDestination(upload store.Upload, b *budget.Budget) chunk.Destination {
	return destination{upload, b}
}

type destination struct {
	store.Upload
	budget *budget.Budget
}

// Write implements chunk.Destination.
func (d destination) Write(ctx context.Context, p []byte) error {
	left, err := d.budget.Reserve("bytes of an abandoned upload", 0)
	if err != nil {
		return err
	}
	b := budget.NewBuffer(p, left)
	defer b.Release()
	if err = d.Upload.Write(ctx, b); err != nil {
		_ = left.Grow(int64(len(p))) // the caller reports the failure of the write
	}
	return err
}

// AfterFailure returns a context for removing the files of a failed call. It lasts a minute, even
// if the context of the call has ended. Files that cannot be removed in this time stay. They do no
// harm, and their names show that Penstock wrote them.
func AfterFailure(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
}
