package catalog

import (
	"strconv"

	"github.com/penstock/penstock/internal/bucket"
)

// FileBucket is what a manifest says of one column of a file: all of its values
// lie in bucket ID of Of.
type FileBucket struct {
	ID int // bucket.Null is the bucket of nulls
	Of int
}

// Null says whether it is the bucket of nulls.
func (b FileBucket) Null() bool { return b.ID == int(bucket.Null) }

// String is the ID, or "null".
func (b FileBucket) String() string {
	if b.Null() {
		return "null"
	}
	return strconv.Itoa(b.ID)
}

// Bucket reads a partition value of the field, whose transform is Bucket.
func (p PartitionField) Bucket(value any) FileBucket {
	if id, ok := value.(int64); ok {
		return FileBucket{ID: int(id), Of: p.Transform.N}
	}
	return FileBucket{ID: int(bucket.Null), Of: p.Transform.N}
}

// BucketOf returns the bucket of a file on a column, by the file's own
// partition spec; false if that spec does not bucket the column.
func (t *Table) BucketOf(f File, column int) (FileBucket, bool) {
	for i, p := range t.Specs[f.Spec] {
		if p.Source == column && p.Transform.Kind == Bucket {
			return p.Bucket(f.Partition[i]), true
		}
	}
	return FileBucket{}, false
}
