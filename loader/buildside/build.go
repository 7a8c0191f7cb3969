package buildside

import (
	"context"
	"errors"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
)

// build builds the group's build side: in memory if it fits there, otherwise on local disk. If the
// disk is full, build evicts the idle build sides on disk, unless it runs for a prefetch.
func (g *group) build(ctx context.Context, prefetch bool) (buildSide, error) {
	disk := g.pool.options.Disk != nil
	if !disk || len(g.source.Files) == 0 || !g.builtInMemory && g.pool.fits(g.memory) {
		tried := ctx
		if disk {
			tried = budget.NoWait(ctx) // building on disk is better than waiting for memory
		}
		coded := g.costs.counting(g.number, g.source)
		coded.Coded, coded.Spare = g.input.Coded, g.pool.options.Keep > 0 && !g.input.Unkept
		side, err := g.inMemory(tried, g.input.Staging(coded))
		if !disk || fault.KindOf(err) != fault.Exhausted {
			g.builtInMemory = err == nil // if this group is built again, its build side was evicted
			return side, err
		}
	}
	side, err := g.onDisk(ctx)
	if !prefetch && errors.Is(err, spill.ErrDiskFull) && g.pool.shared.EvictDisk() {
		return g.onDisk(ctx)
	}
	return side, err
}

// rows returns the rows of the group. The result can be read only once.
func (g *group) rows() joiner.Input { return g.input.Staging(g.costs.counting(g.number, g.source)) }

// inMemory builds a build side of rows of the group in memory.
func (g *group) inMemory(ctx context.Context, rows joiner.Input) (buildSide, error) {
	s, err := joiner.Build(ctx, rows, g.input.Spec, g.pool.inMemory())
	if err != nil {
		return buildSide{}, err
	}
	return inMemory(s), nil
}

// onDisk writes the group to local disk: partitioned if that helps, else sliced.
func (g *group) onDisk(ctx context.Context) (buildSide, error) {
	if !g.divisible() {
		return g.slice(ctx, g.rows(), g.memory)
	}
	defer waits.Begin(ctx, waits.Spill)()
	p := g.partitioning
	parts, err := spill.Partition(ctx, g.rows(), spill.Partitioning{Parts: p.of, Of: p.divide}, g.pool.onDisk(g.memory))
	if err != nil {
		return buildSide{}, fault.Op(err, "divide %s on local disk", g.input.Name)
	}
	g.costs.addSpilled(parts.Bytes())
	return partitioned(parts), nil
}

// slice writes rows of the group to local disk, sliced by key. bytes is the expected size of the
// rows in memory.
func (g *group) slice(ctx context.Context, rows joiner.Input, bytes int64) (buildSide, error) {
	defer waits.Begin(ctx, waits.Spill)()
	s, err := spill.Slice(ctx, rows, g.input.Spec, g.pool.onDisk(bytes))
	if err != nil {
		return buildSide{}, err
	}
	g.costs.addSpilled(s.Bytes())
	return sliced(s), nil
}

// buildPartition returns the build side of one partition of a partitioned group: the partition that
// the reference's range needs. The caller gets a reference to the build side.
func (r *Reference) buildPartition(ctx context.Context, parts *spill.Partitions) (buildSide, error) {
	g := r.group
	_, b, _ := bucketOf(g.input, g.input.Plan.Splits[r.at.Split])
	if r.partition == nil {
		r.partition = newPinned(g.pool.shared.Need(digest.Of(partitionID{group: g.need.Key(), number: b.ID})), g.input.Unkept)
	}
	return r.partition.need.Get(ctx, g.recorded(func(ctx context.Context) (buildSide, error) {
		size := parts.Size(b.ID)
		if g.pool.fits(size) {
			side, err := g.inMemory(budget.NoWait(ctx), parts.Input(b.ID))
			if fault.KindOf(err) != fault.Exhausted {
				return side, err
			}
		}
		return g.slice(ctx, parts.Input(b.ID), size)
	}))
}

// recorded returns a function that calls build, and records how long it takes.
func (g *group) recorded(build func(context.Context) (buildSide, error)) func(context.Context) (buildSide, error) {
	return func(ctx context.Context) (buildSide, error) {
		ctx, track := trace.Ahead(ctx, trace.Build)
		end := waits.Begin(ctx, waits.Build)
		side, err := build(ctx)
		end()
		side.unit = track.Finish(err, trace.Attribute{Key: trace.Table, Text: g.input.Name})
		return side, err
	}
}
