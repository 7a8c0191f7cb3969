package promote

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/extend"
	"github.com/penstock/penstock/loader/catalog"
)

// checkThreads is the number of footers that a dry run reads concurrently. The reads wait for
// storage, so it does not depend on the number of CPUs.
const checkThreads = 16

// checkFiles reads the footers of all files that the call would rewrite, and returns an error if
// the call would refuse one of them.
func (p *promoting) checkFiles(ctx context.Context, pending []catalog.File) error {
	options := p.columnOptions(p.definition)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(checkThreads)
	for _, f := range pending {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := p.checkFile(groupCtx, f, options); err != nil {
				return fault.Op(err, "add columns to file %s", f.Location)
			}
			p.progress.update(func(now *PromotionProgress) { now.FilesChecked++ })
			return nil
		})
	}
	return group.Wait()
}

// checkFile reads and checks the footer of a file that the call would rewrite.
func (p *promoting) checkFile(ctx context.Context, f catalog.File, options extend.Options) error {
	ctx, entered := p.options.Budget.Enter(ctx, "promote")
	defer entered.Release()
	from, err := p.tables.Open(ctx, p.state.Table, f.Location, f.Bytes)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	rows, err := extend.Check(ctx, from, options, p.options.Budget)
	if err != nil {
		return err
	}
	return sameRows(f, rows)
}

// sameRows returns an error if a file's row count differs from the one in the table's manifests.
func sameRows(f catalog.File, rows int64) error {
	if rows == f.Rows {
		return nil
	}
	return fault.New(fault.Corrupt, "the file has %d rows, and the manifests of the table say %d", rows, f.Rows).In("", f.Location).
		WithRemedy("run penstock verify; rewrite the file with the program that wrote it")
}
