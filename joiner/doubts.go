package joiner

// doubts are the places of a build side's groups where a rule cannot choose: the first or
// the last row of rows that time and order columns do not order, and that was written in
// no known order with another of them. By place in the groups' members, they hold that
// other row.
type doubts struct {
	first, last map[int32]int32
	arrival     Arrival
}

// perDoubt is what an entry of a map costs, in bytes.
const perDoubt = 32

// findDoubts looks for them in the groups, which are in order.
func (b *builder) findDoubts(g *groups) (*doubts, error) {
	if b.spec.Arrival == nil || g.of == nil {
		return nil, nil //nolint:nilnil // all is known
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

// doubtsOf looks at rows that nothing orders, which lie from one place of members to another.
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
	for i, file := range files {
		if !d.arrival.Known(files[0], file) {
			d.first[from] = members[from+int32(i)]
		}
		if !d.arrival.Known(files[len(files)-1], file) {
			d.last[to-1] = members[from+int32(i)]
		}
	}
	return nil
}

// rival returns the row that a rule cannot tell from the one that it takes, which is the
// first or the last of n rows from a place on; false if there is none.
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
