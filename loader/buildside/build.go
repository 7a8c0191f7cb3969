package buildside

import (
	"context"
	"errors"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
)

// build makes the group's build side: in memory if it fits, else on local disk.
// Where the disk is full, what lies there and nobody uses gives way, but not to
// what is built ahead.
func (g *group) build(ctx context.Context, ahead bool) (built, error) {
	disk := g.pool.options.Disk != nil
	if !disk || len(g.source.Files) == 0 || !g.gaveWay && g.pool.holds(g.memory) {
		g.costs.addRead(g.of, g.source)
		tried := ctx
		if disk {
			tried = budget.NoWait(ctx) // rather than wait for memory, it goes to disk
		}
		made, err := g.inMemory(tried, g.rows())
		if !disk || fault.KindOf(err) != fault.Exhausted {
			g.gaveWay = err == nil // when it is asked for again
			return made, err
		}
	}
	g.costs.addRead(g.of, g.source)
	made, err := g.onDisk(ctx)
	if !ahead && errors.Is(err, spill.ErrDiskFull) && g.pool.shared.EvictDisk() {
		g.costs.addRead(g.of, g.source)
		return g.onDisk(ctx)
	}
	return made, err
}

// rows is the group's rows as a stream.
func (g *group) rows() joiner.Input { return g.input.Staging(g.source) }

// inMemory builds of rows of the group what can be held.
func (g *group) inMemory(ctx context.Context, rows joiner.Input) (built, error) {
	s, err := joiner.Build(ctx, rows, g.input.Spec, g.pool.inMemory())
	if err != nil {
		return built{}, err
	}
	return inMemory(s), nil
}

func (g *group) onDisk(ctx context.Context) (built, error) {
	if !g.divisible() {
		return g.slice(ctx, g.rows(), g.memory)
	}
	parts, err := spill.Divide(ctx, g.rows(), spill.Divider{Parts: g.division.of, Of: g.division.divide}, g.pool.spilling(g.memory))
	if err != nil {
		return built{}, fault.Op(err, "divide %s on local disk", g.input.Name)
	}
	g.costs.addSpilled(parts.Bytes())
	return divided(parts), nil
}

// slice writes rows of the group to local disk, which are expected to take so
// many bytes in memory.
func (g *group) slice(ctx context.Context, rows joiner.Input, bytes int64) (built, error) {
	s, err := spill.Slice(ctx, rows, g.input.Spec, g.pool.spilling(bytes))
	if err != nil {
		return built{}, err
	}
	g.costs.addSpilled(s.Bytes())
	return sliced(s), nil
}

// buildPart returns what the reference's range needs of a divided group, with a
// reference.
func (r *Reference) buildPart(ctx context.Context, parts *spill.Parts) (built, error) {
	g := r.group
	_, b, _ := bucketOf(g.input, g.input.Plan.Splits[r.at.Split])
	if r.part == nil {
		r.part = g.pool.shared.Need(digest.Of(partOf{group: g.need.Key(), part: b.ID}))
		r.part.Use()
	}
	return r.part.Get(ctx, func(ctx context.Context) (built, error) {
		size := parts.Size(b.ID)
		if g.pool.holds(size) {
			made, err := g.inMemory(budget.NoWait(ctx), parts.Input(b.ID))
			if fault.KindOf(err) != fault.Exhausted {
				return made, err
			}
		}
		return g.slice(ctx, parts.Input(b.ID), size)
	})
}
