package joiner

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/budget"
)

// groups knows the staging rows of the keys that several rows have.
type groups struct {
	// of holds, by the first row of such a key in the stream's order, the
	// number of its group + 1, and 0 elsewhere. It is nil if there are none.
	of      []int32
	starts  []int32 // by group, where its rows begin in members; and their end
	members []int32 // the rows, group after group, each in the build side's order
}

// rows returns the rows of the group that begins with a row, in the build side's
// order, and where they begin in members. They are nil for a key of one row.
func (g *groups) rows(first int32) (rows []int32, from int32) {
	if g.of == nil || g.of[first] == 0 {
		return nil, 0
	}
	group := g.of[first]
	from = g.starts[group-1]
	return g.members[from:g.starts[group]], from
}

// groupBuilder makes groups of repeated keys, which come in the stream's order.
type groupBuilder struct {
	rows int64 // of the build side
	held *budget.Reservation
	// link holds, by a later row of a key, the key's first row as -1 - row,
	// and by a first row how many later rows there are. It is nil until there
	// is a later row.
	link []int32
	many int32 // rows in groups
	keys int32 // groups
}

// addRepeat notes that a row has the key of an earlier row, the key's first.
func (g *groupBuilder) addRepeat(row, first int32) error {
	if g.link == nil {
		if err := g.held.Grow(g.rows * half); err != nil {
			return err
		}
		g.link = make([]int32, g.rows)
	}
	if g.link[first] == 0 {
		g.keys++
		g.many++
	}
	g.link[first]++
	g.link[row] = -1 - first
	g.many++
	return nil
}

// finish puts the rows of each group together. The memory of link goes on as
// that of of.
func (g *groupBuilder) finish() (groups, error) {
	if g.link == nil {
		return groups{}, nil
	}
	if err := g.held.Grow((int64(g.keys) + 1 + int64(g.many)) * half); err != nil {
		return groups{}, err
	}
	out := groups{of: g.link, starts: make([]int32, 1, g.keys+1), members: make([]int32, g.many)}
	end := int32(0)
	for row, n := range g.link {
		switch {
		case n > 0:
			// While rows are put down, the start of a group is where its next
			// row goes, so that in the end it is where the next group begins.
			out.starts = append(out.starts, end)
			out.of[row] = int32(len(out.starts) - 1)
			out.put(int32(len(out.starts)-1), int32(row))
			end += n + 1
		case n < 0:
			out.put(out.of[-1-n], int32(row))
			out.of[row] = 0
		}
	}
	return out, nil
}

func (g *groups) put(group, row int32) {
	g.members[g.starts[group]] = row
	g.starts[group]++
}

// sort orders the rows of each group. compare is of rows, and total.
func (g *groups) sort(ctx context.Context, compare func(a, b int32) int) error {
	for i := range max(0, len(g.starts)-1) {
		if err := ctx.Err(); err != nil {
			return err
		}
		slices.SortFunc(g.members[g.starts[i]:g.starts[i+1]], compare)
	}
	return nil
}
