package chunkcache

import "sort"

// rowSpan is a range of consecutive rows of a unit whose values are in one segment.
type rowSpan struct {
	from, to int64 // row numbers in the row group
	segment  *segment
}

// rowSpans are the rows that a unit has, in ascending order and without overlaps. A slice is
// replaced and never changed in place, because pins read it without the cache's lock.
type rowSpans []rowSpan

// at returns the index of the first span that ends after a row.
func (r rowSpans) at(row int64) int {
	return sort.Search(len(r), func(i int) bool { return r[i].to > row })
}

// cover reports whether the spans contain all rows of a range.
func (r rowSpans) cover(from, to int64) bool {
	for i := r.at(from); i < len(r) && r[i].from <= from; i++ {
		if from = r[i].to; from >= to {
			return true
		}
	}
	return from >= to
}

// with returns the spans, extended by the rows of a segment that they lack.
func (r rowSpans) with(s *segment) rowSpans {
	all, row := make(rowSpans, 0, len(r)+1), s.from
	add := func(to int64) {
		if row < to {
			all = append(all, rowSpan{from: row, to: to, segment: s})
		}
	}
	for _, one := range r {
		add(min(one.from, s.end()))
		all = append(all, one)
		row = max(row, one.to)
	}
	add(s.end())
	return all
}

// rows returns the number of rows.
func (r rowSpans) rows() (n int64) {
	for _, one := range r {
		n += one.to - one.from
	}
	return n
}
