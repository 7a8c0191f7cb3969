package catalog

import (
	"strconv"

	"github.com/penstock/penstock/internal/bucket"
)

// FileBucket is the bucket that a manifest names for a data file and one of its columns: in this
// file, all values of the column are in bucket ID of the transform Of.
type FileBucket struct {
	ID int // or bucket.Null, the bucket of nulls
	Of int
}

// Null reports whether b is the bucket of nulls.
func (b FileBucket) Null() bool { return b.ID == int(bucket.Null) }

// String returns the ID, or "null".
func (b FileBucket) String() string {
	if b.Null() {
		return "null"
	}
	return strconv.Itoa(b.ID)
}

// Bucket converts a partition value of the field, whose transform is Bucket.
func (p PartitionField) Bucket(value any) FileBucket {
	if id, ok := value.(int64); ok {
		return FileBucket{ID: int(id), Of: p.Transform.N}
	}
	return FileBucket{ID: int(bucket.Null), Of: p.Transform.N}
}

// BucketOf returns the bucket of a column's values in a file, according to the file's own partition
// spec. It returns false if this spec does not bucket the column.
func (t *Table) BucketOf(f File, column int) (FileBucket, bool) {
	for i, p := range t.Specs[f.Spec] {
		if p.Source == column && p.Transform.Kind == Bucket {
			return p.Bucket(f.Partition[i]), true
		}
	}
	return FileBucket{}, false
}
