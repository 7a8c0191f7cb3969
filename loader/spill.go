package loader

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// build makes the class's side: in memory if it fits. What does not, or had to
// give way before its stream was done with it, is written to local disk, once
// for all streams: divided by the training table's buckets, since each then
// reads its own part, or else sliced by key. So no class is read more often
// than twice, tries that failed aside: those do not send it to disk.
func (c *class) build(ctx context.Context) (counted, error) {
	limit, disk := c.splits.options.Budget.Limit(), c.splits.options.Disk != nil
	if !disk || limit < 0 || len(c.source.Files) == 0 || !c.gaveWay && c.memory <= limit {
		c.level.met.read(c.source)
		tried := ctx
		if disk {
			tried = budget.Hurry(ctx) // rather than wait for memory, it goes to disk
		}
		made, err := c.inMemory(tried, c.input())
		if !disk || fault.KindOf(err) != fault.Exhausted {
			c.gaveWay = err == nil // when it is asked for again
			return made, err
		}
	}
	c.level.met.read(c.source)
	made, err := c.onDisk(ctx)
	if fault.KindOf(err) == fault.Exhausted && c.splits.sides.clearDisk() {
		c.level.met.read(c.source)
		return c.onDisk(ctx)
	}
	return made, err
}

func (c *class) inMemory(ctx context.Context, in joiner.Input) (counted, error) {
	s, err := joiner.Build(ctx, in, c.level.recipe, c.splits.joining())
	if err != nil {
		return nil, err // not a nil *Side
	}
	return s, nil
}

func (c *class) onDisk(ctx context.Context) (counted, error) {
	opts := c.spilling(c.memory)
	if d := c.division; c.divisible() {
		parts, err := spill.Divide(ctx, c.input(), spill.Divider{Parts: d.of, Of: d.divide}, opts)
		if err != nil {
			return nil, fault.Op(err, "divide %s on local disk", c.level.rule.Name)
		}
		c.level.met.spill(parts.Bytes())
		return parts, nil
	}
	return c.sliced(ctx, c.input(), opts)
}

func (c *class) sliced(ctx context.Context, in joiner.Input, opts spill.Options) (counted, error) {
	s, err := spill.Slice(ctx, in, c.level.recipe, opts)
	if err != nil {
		return nil, err // not a nil *Sliced
	}
	c.level.met.spill(s.Spilled())
	return s, nil
}

// spilling says how rows go to local disk that are expected to take so much
// memory.
func (c *class) spilling(bytes int64) spill.Options {
	return spill.Options{Options: c.splits.joining(), Disk: c.splits.options.Disk, ExpectedBytes: bytes}
}

// division says how the rows of a class are divided by training bucket.
type division struct {
	key    int          // which pair of the key
	of     int          // buckets
	served map[int]bool // the buckets that the class's splits lie in
	unlike bool         // some lie in none, or not in those of one column and count
}

// divisions finds out for every class of the level how its splits lie.
func (l *level) divisions(p *plan.Plan) map[int]*division {
	all := map[int]*division{}
	for _, split := range p.Splits {
		number := split.Classes[l.staging]
		d := all[number]
		if d == nil {
			d = &division{served: map[int]bool{}}
			all[number] = d
		}
		key, b, ok := l.bucketOf(p, split)
		if !ok || d.of != 0 && (d.of != b.Of || d.key != key) {
			d.unlike = true
			continue
		}
		d.key, d.of, d.served[b.ID] = key, b.Of, true
	}
	return all
}

// divisible says whether the class can be divided by its division, and whether
// that helps: it does where its splits lie in several buckets, each of which
// reads its own part, or in one whose part then fits in memory.
func (c *class) divisible() bool {
	d := c.division
	if d.unlike {
		return false
	}
	return len(d.served) > 1 || len(d.served) == 1 && c.memory <= c.splits.options.Budget.Limit()
}

// bucketOf returns the first pair of the level's key that a split's training
// files are bucketed on, and the split's bucket.
func (l *level) bucketOf(p *plan.Plan, split plan.Split) (int, catalog.FileBucket, bool) {
	for i, k := range l.bound.Keys {
		if b, ok := p.Relation.Training.BucketOf(split.Files[0].File, k.Training.ID); ok && !b.Null() {
			return i, b, true
		}
	}
	return 0, catalog.FileBucket{}, false
}

// divide is the Of of a spill.Divider. It keeps the rows of every bucket: other
// streams may have splits where this one has none.
func (d *division) divide(keys []arrow.Array, parts []int32) error {
	return resolve.Buckets(parts, keys[d.key], d.of)
}

// part returns what the grip's piece needs of a divided class.
func (g *grip) part(ctx context.Context, parts *spill.Parts) (counted, error) {
	c := g.class
	_, b, _ := c.level.bucketOf(c.splits.plan, c.splits.plan.Splits[g.at.Split])
	if g.shared == nil {
		g.shared = c.splits.sides.enter(fmt.Sprintf("%s bucket %d of %d", c.shared.key, b.ID, b.Of))
		c.splits.sides.acquire(g.shared)
	}
	return g.shared.get(ctx, func(ctx context.Context) (counted, error) {
		limit := c.splits.options.Budget.Limit()
		if size := parts.Size(b.ID); limit < 0 || size <= limit {
			made, err := c.inMemory(budget.Hurry(ctx), parts.Input(b.ID))
			if fault.KindOf(err) != fault.Exhausted {
				return made, err
			}
		}
		return c.sliced(ctx, parts.Input(b.ID), c.spilling(parts.Size(b.ID)))
	})
}

// again is the training rows of the grip's piece once more, for the joins of a
// sliced side: their keys, and their time if the rule has one.
func (g *grip) again() joiner.Input {
	l, s := g.class.level, g.class.splits
	var read columns
	in := joiner.Input{Open: func(ctx context.Context) (array.RecordReader, error) { return s.training(ctx, g.at, read) }}
	for _, k := range l.bound.Keys {
		in.Key = append(in.Key, read.add(column{field: k.Training}))
	}
	if l.bound.Time != nil {
		in.Columns = []int{read.add(column{field: l.bound.Time.Training})}
	}
	return in
}
