package listing

import (
	"context"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// ColumnBytes returns the stored sizes of columns, from the manifests of a pinned table. See
// catalog.Sizer. Unlike Files, it decodes all statistics in the manifests.
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

// appendStored appends the field ids under which the values of a column are stored: the id of a
// primitive column, or the ids of the primitive fields inside the column. It appends none for a
// column of row lineage, because files need not store it, so its size would be missing.
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

// sizeOf returns the stored size of the listing's columns in a file. It returns false if the size
// of one of them was not recorded.
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
