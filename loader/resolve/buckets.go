package resolve

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/loader/catalog"
)

// Bucket is one value of Iceberg's bucket transform: ID of Of, or NullBucket.
type Bucket struct {
	ID int
	Of int
}

// NullBucket is the ID of the bucket that holds null keys.
const NullBucket = -1

// BucketOf returns the bucket of a file on a column, by the file's own
// partition spec; false if that spec does not bucket the column.
func BucketOf(t *catalog.Table, f catalog.File, column int) (Bucket, bool) {
	for i, p := range t.Specs[f.Spec] {
		if p.Source == column && p.Transform.Kind == catalog.Bucket {
			return bucketAt(f.Partition, i, p), true
		}
	}
	return Bucket{}, false
}

// Buckets writes the bucket of n of each key to ids: NullBucket for a null.
func Buckets(ids []int32, keys arrow.Array, n int) error {
	_, err := bucket.Array(ids[:0], keys, n)
	return err
}

// bucketAt reads the partition value of a bucket field.
func bucketAt(partition []any, i int, p catalog.PartitionField) Bucket {
	if id, ok := partition[i].(int64); ok {
		return Bucket{ID: int(id), Of: p.Transform.N}
	}
	return Bucket{ID: NullBucket, Of: p.Transform.N}
}

// BucketPair is a column of the join key that a training spec and a staging
// spec both bucket. A training bucket b can hold keys of a staging bucket c
// exactly when b and c agree modulo Modulus.
type BucketPair struct {
	Key          Key
	TrainingOf   int // buckets of the training spec
	StagingOf    int // of the staging spec
	Modulus      int // their greatest common divisor
	training, at int // positions of the fields in their specs
}

// bucketPairs lists the bucket fields that two specs have on the same key
// columns.
func bucketPairs(keys []Key, training, staging catalog.Spec) []BucketPair {
	var pairs []BucketPair
	for _, k := range keys {
		for i, t := range training {
			if t.Source != k.Training.ID || t.Transform.Kind != catalog.Bucket {
				continue
			}
			for j, s := range staging {
				if s.Source != k.Staging.ID || s.Transform.Kind != catalog.Bucket {
					continue
				}
				pairs = append(pairs, BucketPair{
					Key: k, TrainingOf: t.Transform.N, StagingOf: s.Transform.N,
					Modulus:  bucket.Overlap(t.Transform.N, s.Transform.N),
					training: i, at: j,
				})
			}
		}
	}
	return pairs
}
