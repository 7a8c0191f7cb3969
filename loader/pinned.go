package loader

import (
	"context"
	"errors"
	"io/fs"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// pinned returns a Scan that, if a file is missing, checks whether the pinned snapshot has expired.
// If so, the Scan fails with the error that the snapshot expired, instead of the error that the
// table is corrupt: when a snapshot expires, the files that no other snapshot has are removed.
func pinned(under Scan, of catalog.Catalog) Scan {
	return func(ctx context.Context, source plan.Source, columns []catalog.Field) (Rows, error) {
		rows, err := under(ctx, source, columns)
		if err != nil {
			return nil, err
		}
		return &pinnedRows{Rows: rows, expired: func(missing error) error {
			return expired(ctx, of, source.Table, missing)
		}}, nil
	}
}

// pinnedRows are the rows of a pinned table.
type pinnedRows struct {
	Rows
	expired func(missing error) error // see the function expired
	gone    error                     // the pin has expired
}

// Next advances to the next batch.
func (r *pinnedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	if err := r.Rows.Err(); r.gone == nil && errors.Is(err, fs.ErrNotExist) {
		r.gone = r.expired(err)
	}
	return false
}

// Err returns why the rows ended early, or nil.
func (r *pinnedRows) Err() error {
	if r.gone != nil {
		return r.gone
	}
	return r.Rows.Err()
}

// expired returns an error that says which part of a table's pin has expired. It returns nil if
// nothing has expired, or if that cannot be determined.
func expired(ctx context.Context, of catalog.Catalog, table *catalog.Table, missing error) error {
	_, err := of.At(ctx, table.Name, table.Pin)
	switch fault.KindOf(err) {
	case fault.Expired, fault.NotFound:
		gone := *fault.As(fault.Op(err, "read %s", table.Name))
		gone.File = fault.As(missing).File
		return &gone
	case fault.Internal, fault.Invalid, fault.Unauthenticated, fault.Forbidden, fault.Conflict, fault.Exhausted, fault.Corrupt, fault.Unavailable:
	}
	return nil
}
