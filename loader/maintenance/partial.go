package maintenance

import (
	"context"
	"slices"

	"github.com/penstock/penstock/loader/catalog"
)

// lackedColumns returns, by location, the promoted columns that files of a pinned table lack, according to the sizes in the manifests.
// Datasets with a promoted entry join rows of files that lack its columns, so a rewrite must not add nulls for them.
func lackedColumns(ctx context.Context, tables PinnedTables, t *catalog.Table, files []catalog.File) (map[string][]int, error) {
	type entry struct{ promotion, name string }
	columns := map[entry][]int{}
	for _, f := range t.Fields {
		if o, ok := t.Origins[f.ID]; ok {
			of := entry{o.Promotion, o.Entry}
			columns[of] = append(columns[of], f.ID)
		}
	}
	lacked := map[string][]int{}
	for _, ids := range columns {
		lacking, err := catalog.Lacking(ctx, tables, t, ids, files)
		if err != nil {
			return nil, err
		}
		for location := range lacking {
			lacked[location] = append(lacked[location], ids...)
		}
	}
	return lacked, nil
}

// withoutColumns returns a table without some columns.
func withoutColumns(t *catalog.Table, ids []int) *catalog.Table {
	out := *t
	out.Fields = slices.DeleteFunc(slices.Clone(t.Fields), func(f catalog.Field) bool { return slices.Contains(ids, f.ID) })
	return &out
}
