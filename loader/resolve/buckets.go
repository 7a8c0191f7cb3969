package resolve

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/loader/catalog"
)

// Buckets writes the bucket of each key to ids, out of n buckets. The bucket of a null is
// bucket.Null.
func Buckets(ids []int32, keys arrow.Array, n int) error {
	_, err := bucket.Array(ids[:0], keys, n)
	return err
}

// bucketPair is a column of the join key that both a training spec and a staging spec bucket.
// Training bucket b and staging bucket c can share keys if and only if b and c are congruent
// modulo Modulus.
type bucketPair struct {
	Key          Key
	TrainingOf   int // number of buckets in the training spec
	StagingOf    int // number of buckets in the staging spec
	Modulus      int // greatest common divisor of both
	training, at int // positions of the fields in their specs
}

// bucketPairs returns a pair for each key column that both specs bucket.
func bucketPairs(keys []Key, training, staging catalog.Spec) []bucketPair {
	var pairs []bucketPair
	for _, k := range keys {
		for i, t := range training {
			if t.Source != k.Training.ID || t.Transform.Kind != catalog.Bucket {
				continue
			}
			for j, s := range staging {
				if s.Source != k.Staging.ID || s.Transform.Kind != catalog.Bucket {
					continue
				}
				pairs = append(pairs, bucketPair{
					Key: k, TrainingOf: t.Transform.N, StagingOf: s.Transform.N,
					Modulus:  bucket.Overlap(t.Transform.N, s.Transform.N),
					training: i, at: j,
				})
			}
		}
	}
	return pairs
}
