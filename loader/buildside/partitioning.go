package buildside

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// partitioning describes how the rows of a file group are partitioned by the buckets of the
// training table.
type partitioning struct {
	key    int          // index of the key pair that the training table is bucketed on
	of     int          // number of buckets
	served map[int]bool // the buckets of the group's splits
	mixed  bool         // some splits have no bucket, or a bucket of another column or bucket count
}

// partitionings returns the partitioning of each group, by the group's number.
func partitionings(in Input) map[int]*partitioning {
	all := map[int]*partitioning{}
	for _, split := range in.Plan.Splits {
		number := split.Groups[in.Table]
		p := all[number]
		if p == nil {
			p = &partitioning{served: map[int]bool{}}
			all[number] = p
		}
		key, b, ok := bucketOf(in, split)
		if !ok || p.of != 0 && (p.of != b.Of || p.key != key) {
			p.mixed = true
			continue
		}
		p.key, p.of, p.served[b.ID] = key, b.Of, true
	}
	return all
}

// bucketOf returns the first pair of the input's key that a split's training
// files are bucketed on, and the split's bucket.
func bucketOf(in Input, split plan.Split) (key int, b catalog.FileBucket, ok bool) {
	relation := in.Plan.Relation
	for i, k := range relation.Staging[in.Table].Keys {
		if b, ok := relation.Training.BucketOf(split.Files[0].File, k.Training.ID); ok && !b.Null() {
			return i, b, true
		}
	}
	return 0, catalog.FileBucket{}, false
}

// divisible reports whether partitioning the group is possible and helps. It helps if the group's
// splits have several buckets, since each bucket then reads only its own partition. It also helps
// if they have one bucket, since the partition of that bucket may fit in memory.
func (g *group) divisible() bool {
	p := g.partitioning
	if p.mixed {
		return false
	}
	return len(p.served) > 1 || len(p.served) == 1 && g.memory <= g.pool.options.Budget.Limit()
}

// divide is used as the function Of of a spill.Partitioning. It keeps the rows of all buckets,
// including buckets of which only other streams have splits.
func (p *partitioning) divide(keys []arrow.Array, numbers []int32) error {
	return resolve.Buckets(numbers, keys[p.key], p.of)
}
