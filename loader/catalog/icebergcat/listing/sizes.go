package listing

import (
	"context"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// ColumnBytes returns the stored sizes of columns that the manifests of a pinned table have. See
// catalog.Sizer. Manifests are decoded with all of their statistics, which listing files leaves out.
func (f *FileLister) ColumnBytes(ctx context.Context, t *catalog.Table, columns []int) (map[string]int64, error) {
	held := f.source.Hold(t.Name)
	defer held.Release()
	meta, err := f.source.Load(ctx, t.Name, held)
	if err != nil {
		return nil, err
	}
	l, err := NewListing(f.source, meta, t.Pin, columns, nil)
	if err != nil || l.Snapshot == nil {
		return nil, err
	}
	l.Held, l.sizes = held, []int{}
	for _, f := range l.columns {
		l.sizes = appendStored(l.sizes, f)
	}
	all, err := l.Read(ctx)
	if fault.KindOf(err) == fault.Corrupt {
		return nil, l.expiredMeanwhile(ctx, t, err)
	}
	return all.sizes, err
}

// appendStored adds the field ids under which the values of a column are stored: its own, or those inside of it. A
// writer may store row ids or not, so that their size is no part of any column's.
func appendStored(ids []int, f iceberg.NestedField) []int {
	switch t := f.Type.(type) {
	case *iceberg.ListType:
		return appendStored(ids, t.ElementField())
	case *iceberg.MapType:
		return appendStored(appendStored(ids, t.KeyField()), t.ValueField())
	case *iceberg.StructType:
		for _, inner := range t.FieldList {
			ids = appendStored(ids, inner)
		}
		return ids
	}
	if catalog.IsLineage(f.ID) {
		return ids
	}
	return append(ids, f.ID)
}

// sizeOf returns the stored size of the listing's columns in a file; false if it was not recorded for each.
func (l *Listing) sizeOf(d iceberg.DataFile) (int64, bool) {
	recorded, sum := d.ColumnSizes(), int64(0)
	for _, id := range l.sizes {
		size, ok := recorded[id]
		if !ok || size < 0 {
			return 0, false
		}
		sum += size
	}
	return sum, true
}
