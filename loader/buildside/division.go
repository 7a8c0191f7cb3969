package buildside

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// division says how the rows of a file group are divided by training bucket.
type division struct {
	key    int          // which pair of the key the training table is bucketed on
	of     int          // buckets
	served map[int]bool // the buckets that the group's splits lie in
	mixed  bool         // some lie in none, or not in those of one column and count
}

// divisions finds out for every group how its splits lie.
func divisions(in Input) map[int]*division {
	all := map[int]*division{}
	for _, split := range in.Plan.Splits {
		number := split.Groups[in.Table]
		d := all[number]
		if d == nil {
			d = &division{served: map[int]bool{}}
			all[number] = d
		}
		key, b, ok := bucketOf(in, split)
		if !ok || d.of != 0 && (d.of != b.Of || d.key != key) {
			d.mixed = true
			continue
		}
		d.key, d.of, d.served[b.ID] = key, b.Of, true
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

// divisible says whether the group can be divided by its division, and whether
// that helps: it does where its splits lie in several buckets, each of which
// reads its own part, or in one whose part then fits in memory.
func (g *group) divisible() bool {
	d := g.division
	if d.mixed {
		return false
	}
	return len(d.served) > 1 || len(d.served) == 1 && g.memory <= g.pool.options.Budget.Limit()
}

// divide is the Of of a spill.Divider. It keeps the rows of every bucket: other
// streams may have splits where this one has none.
func (d *division) divide(keys []arrow.Array, parts []int32) error {
	return resolve.Buckets(parts, keys[d.key], d.of)
}
