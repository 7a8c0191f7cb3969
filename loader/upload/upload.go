// Package upload has what all writers of data files share: how the bytes of a file that is being written are charged to the
// budget, and for how long the files of a failed call are removed.
package upload

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet/chunk"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
)

// discardLimit bounds what is done after a failure.
const discardLimit = time.Minute

// ReserveParts returns the function by which an upload reserves the memory of its parts.
func ReserveParts(b *budget.Budget) store.Reserve {
	return func(ctx context.Context, bytes int64) (*release.Handle, error) {
		held, err := b.ReserveFor(ctx, "parts of data files", bytes)
		if err != nil {
			return nil, err
		}
		return release.New(held.Release), nil
	}
}

// NewDestination returns what passes the bytes of a file to its upload. If a write is left behind, its bytes stay
// reserved until it returns.
func NewDestination(upload store.Upload, b *budget.Budget) chunk.Destination {
	return destination{upload, b}
}

type destination struct {
	store.Upload
	budget *budget.Budget
}

// Write implements chunk.Destination.
func (d destination) Write(ctx context.Context, p []byte) error {
	left, err := d.budget.Reserve("bytes of an upload that was left behind", 0)
	if err != nil {
		return err
	}
	b := budget.NewBuffer(p, left)
	defer b.Release()
	if err = d.Upload.Write(ctx, b); err != nil {
		_ = left.Grow(int64(len(p))) // the failure of the write is reported
	}
	return err
}

// AfterFailure returns a context for removing what a failed call has written: it lasts a minute, also if the call's own
// context has ended. What cannot be removed until then stays: it is harmless, and recognized by its name.
func AfterFailure(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
}
