package loader

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// withPartial returns the training table with those promoted columns marked as partial that some
// data file of the pin may lack. A file may lack them if the snapshot is of a branch without the
// promotion, if older rows were restored, or if another program added files without the columns.
// The schema has the columns in any case, but they would be null in the rows of these files. A file
// has a column if the file's manifest states the column's size. If the catalog is no Sizer, all
// files count as having all columns.
func (l *Loader) withPartial(ctx context.Context, d dataset.Dataset, training *catalog.Table) (*catalog.Table, error) {
	sizer, ok := l.options.Catalog.(catalog.Sizer)
	if !ok || len(training.Origins) == 0 {
		return training, nil
	}
	out := *training
	for _, p := range resolve.Promotions(d, training) {
		if p == nil {
			continue
		}
		columns := make([]int, len(p.Columns))
		for i, c := range p.Columns {
			columns[i] = c.ID
		}
		lacked, err := l.options.Listings.lacked(ctx, sizer, training, columns, func(ctx context.Context) ([]catalog.File, error) {
			files, err := l.listing(ctx, training, nil, nil)
			return files.Files, err
		})
		if err != nil {
			return nil, err
		}
		if lacked {
			out.Partial = addAll(out.Partial, columns)
		}
	}
	return &out, nil
}

func addAll(set map[int]bool, ids []int) map[int]bool {
	if set == nil {
		set = map[int]bool{}
	}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// bytesOfLacked is the estimated size of one result of lacked in the cache.
const bytesOfLacked = 200

// lacked reports whether any data file of a pinned table may lack any of the given columns. It gets
// the files from the function list.
func (l *Listings) lacked(ctx context.Context, sizer catalog.Sizer, t *catalog.Table, columns []int, list func(context.Context) ([]catalog.File, error)) (bool, error) {
	find := func(ctx context.Context) (bool, error) {
		files, err := list(ctx)
		if err != nil {
			return false, err
		}
		empty := func(f catalog.File) bool { return f.Rows == 0 }
		lacking, err := catalog.Lacking(ctx, sizer, t, columns, slices.DeleteFunc(slices.Clone(files), empty))
		return len(lacking) > 0, err
	}
	if l == nil {
		return find(ctx)
	}
	key := digest.Of(listingInputs{table: t.Name, pin: t.Pin, columns: columns})
	return l.lacking.Get(ctx, key, func(ctx context.Context) (bool, int64, error) {
		lacked, err := find(ctx)
		return lacked, bytesOfLacked, err
	})
}
