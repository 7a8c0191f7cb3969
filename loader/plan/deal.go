package plan

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// deal assigns the rows of all splits to n lanes. The quota of a lane is Rows div n rows; the first
// Rows mod n lanes have a quota of one row more. The splits are assigned in their order, each to
// the lane with the fewest rows, or to the first of several such lanes. If a split exceeds the
// lane's quota, it is cut, and the rest of the split is assigned in the same way. If splits must
// not be cut, there is no quota. See dealtTogether for an exception.
//
// If splits are dealt once, the order is that of epoch 0 of seed 0. So lanes have the same rows in
// all epochs of all seeds, and servers that read some of the lanes find the build sides and the
// columns of their last epoch. Each lane then puts its ranges into the order of the epoch.
func (p *Plan) deal(n int) {
	for _, s := range p.Splits {
		p.StoredRows += s.Rows
	}
	p.Lanes = make([]Lane, n)
	quota := func(lane int) int64 {
		if p.wholeBuckets() {
			return p.StoredRows
		}
		q := p.StoredRows / int64(n)
		if int64(lane) < p.StoredRows%int64(n) {
			q++
		}
		return q
	}
	order := p.dealtOrder()
	lane := 0
	for at, i := range order {
		s, begin := p.Splits[i], int64(0)
		for dealt := int64(0); dealt < s.Rows; {
			if dealt > 0 || at == 0 || !p.dealtTogether(p.Splits[order[at-1]], s) || p.Lanes[lane].Rows == quota(lane) {
				lane = shortest(p.Lanes, quota)
			}
			rows := min(s.Rows-dealt, quota(lane)-p.Lanes[lane].Rows)
			if dealt == 0 && rows < s.Rows {
				begin = p.cutAt(s)
			}
			p.Lanes[lane].add(i, (begin+dealt)%s.Rows, rows, s.Rows)
			dealt += rows
		}
	}
	if p.Algorithm == dealtOnce {
		for lane := range p.Lanes {
			p.orderLane(lane)
		}
	}
}

// dealtOrder returns the indices of the splits in the order in which they are dealt.
func (p *Plan) dealtOrder() []int {
	order := indices(len(p.Splits))
	if p.Algorithm == dealtOnce {
		return p.shuffled(p.dealing(), order)
	}
	return order
}

// dealing returns the draws that decide which lane gets which rows.
func (b *Bound) dealing() draws {
	if b.Algorithm == dealtOnce {
		return draws{}
	}
	return b.draws()
}

// orderLane puts the ranges of a lane into the shuffled order of the epoch, which is different for
// each lane: otherwise buckets that are in one step would be in one step in each epoch. Ranges of
// cut splits are last, so that they extend the run before them.
func (p *Plan) orderLane(lane int) {
	ranges := p.Lanes[lane].Ranges
	whole := func(r Range) bool { return r.To-r.From == p.Splits[r.Split].Rows }
	splits := make([]int, len(ranges))
	for i, r := range ranges {
		splits[i] = r.Split
	}
	slices.Sort(splits)
	splits = slices.Compact(splits)
	by := p.draws()
	by.lane = lane
	place := make(map[int]int, len(splits))
	for at, split := range p.shuffled(by, splits) {
		place[split] = at
	}
	slices.SortStableFunc(ranges, func(a, b Range) int {
		if whole(a) != whole(b) {
			if whole(a) {
				return -1
			}
			return 1
		}
		return cmp.Compare(place[a.Split], place[b.Split])
	})
}

// cutAt returns the row of a split at which the first lane begins, if several lanes share the
// split. If rows are permuted, the row is random. If it were always the first row, the rows that do
// not fit into a lane would always be the last rows of a bucket. These are the latest rows if the
// table is ordered by time.
func (b *Bound) cutAt(s Split) int64 {
	if b.Rows.ShuffleWindow == 0 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b.dealing().mix("cut", s.ID)) % uint64(s.Rows))
}

// add assigns a number of rows of a split to the lane, starting at a row. After the split's last
// row, it continues with the split's first row. The added ranges are in the order of their rows.
func (l *Lane) add(split int, from, rows, of int64) {
	to := from + rows
	if to > of {
		l.Ranges = append(l.Ranges, Range{Split: split, From: 0, To: to - of})
	}
	l.Ranges = append(l.Ranges, Range{Split: split, From: from, To: min(to, of)})
	l.Rows += rows
}

// dealtTogether reports whether a split is assigned to the lane of the preceding split, as far as
// that lane has room. It is if rows are permuted within windows and both splits belong to one
// bucket. As a result, the windows of one lane cover the bucket's whole time range. Splits without
// a bucket are spread over the lanes, because together they cover the time range of the whole
// table; all such splits of a lane form one run.
func (b *Bound) dealtTogether(before, split Split) bool {
	if b.Rows.ShuffleWindow == 0 || b.wholeBuckets() {
		return false
	}
	return split.Bucket.Of > 0 && split.Bucket == before.Bucket
}

// shortest returns the lane with the fewest rows among the lanes below their quota. Such a lane
// exists until all rows are assigned.
func shortest(lanes []Lane, quota func(int) int64) int {
	best := -1
	for i, l := range lanes {
		if l.Rows < quota(i) && (best < 0 || l.Rows < lanes[best].Rows) {
			best = i
		}
	}
	return best
}
