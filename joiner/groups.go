package joiner

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/budget"
)

// groups holds the staging rows of the keys that several rows have.
type groups struct {
	// of holds, by the first row of such a key in the stream's order, the
	// number of its group + 1, and 0 elsewhere. It is nil if there are no groups.
	of      []int32
	starts  []int32 // by group, where its rows start in members; then len(members)
	members []int32 // the rows, group by group, each in the build side's order
}

// rows returns the rows of the group whose first row is given, in the build side's
// order, and where they start in members. They are nil for a key of one row.
func (g *groups) rows(first int32) (rows []int32, from int32) {
	if g.of == nil || g.of[first] == 0 {
		return nil, 0
	}
	group := g.of[first]
	from = g.starts[group-1]
	return g.members[from:g.starts[group]], from
}

// groupBuilder builds the groups. Rows are added in the stream's order.
type groupBuilder struct {
	rows int64 // rows of the build side
	held *budget.Reservation
	// link holds, by a later row of a key, the key's first row as -1 - row,
	// and by a first row how many later rows there are. It is nil before the
	// first later row.
	link []int32
	many int32 // rows in groups
	keys int32 // number of groups
}

// addRepeat adds a row whose key an earlier row has; first is the first such row.
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

// finish collects the rows of each group. The memory of link becomes that of of.
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
			// While rows are added, the start of a group is where its next row
			// goes; at the end it is the start of the next group.
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

// sort sorts the rows of each group by compare, a total order of rows.
func (g *groups) sort(ctx context.Context, compare func(a, b int32) int) error {
	for i := range max(0, len(g.starts)-1) {
		if err := ctx.Err(); err != nil {
			return err
		}
		slices.SortFunc(g.members[g.starts[i]:g.starts[i+1]], compare)
	}
	return nil
}

// doubts holds the positions in groups.members where a rule cannot choose: the first and the
// last of rows that compare equal in time and order columns, if it is not known whether such a
// row was written before or after another of them. The value is the first such row of the
// stream: if these rows are a portion of all, and any of them is in doubt with a later row of
// another portion, then the last one or its value is (see Arrival).
type doubts struct {
	first, last map[int32]int32
	arrival     Arrival
}

// perDoubt is an upper bound of the bytes of a map entry.
const perDoubt = 32

// findDoubts returns the doubts of sorted groups.
func (b *builder) findDoubts(g *groups) (*doubts, error) {
	if b.spec.Arrival == nil || g.of == nil {
		return nil, nil //nolint:nilnil // no doubts
	}
	d := &doubts{first: map[int32]int32{}, last: map[int32]int32{}, arrival: b.spec.Arrival}
	for i := range len(g.starts) - 1 {
		from, end := g.starts[i], g.starts[i+1]
		for at := from + 1; at <= end; at++ {
			if at < end && b.rank.level(g.members[at-1], g.members[at]) == 0 {
				continue
			}
			if err := b.doubtsOf(d, g.members, from, at); err != nil {
				return nil, err
			}
			from = at
		}
	}
	return d, nil
}

// doubtsOf adds the doubts of rows that compare equal: members[from:to].
func (b *builder) doubtsOf(d *doubts, members []int32, from, to int32) error {
	if to-from < 2 {
		return nil
	}
	if err := b.held.Grow(2 * perDoubt); err != nil {
		return err
	}
	files := make([]string, to-from)
	for i := range files {
		files[i] = fileOf(b.in.File, members[from+int32(i)])
	}
	for i, file := range slices.Backward(files) {
		if !d.arrival.Known(files[0], file) {
			d.first[from] = members[from+int32(i)]
		}
		if !d.arrival.Known(files[len(files)-1], file) {
			d.last[to-1] = members[from+int32(i)]
		}
	}
	return nil
}

// rival returns the row that ties with the one that a rule chooses: the first or the last of
// the n rows that start at from. It returns false if there is none.
func (d *doubts) rival(from, n int32, last bool) (int32, bool) {
	if d == nil {
		return 0, false
	}
	if last {
		row, ok := d.last[from+n-1]
		return row, ok
	}
	row, ok := d.first[from]
	return row, ok
}
