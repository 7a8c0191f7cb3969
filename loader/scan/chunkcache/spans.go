package chunkcache

import "sort"

// rowSpan is consecutive rows of a unit, whose values a segment has.
type rowSpan struct {
	from, to int64 // row numbers in the row group
	segment  *segment
}

// rowSpans are the rows that a unit has: in order, none twice. They are replaced, never changed, since pins
// read them without the cache's lock.
type rowSpans []rowSpan

// at returns the index of the first span that ends after a row.
func (r rowSpans) at(row int64) int {
	return sort.Search(len(r), func(i int) bool { return r[i].to > row })
}

// cover reports whether there are all rows of a range.
func (r rowSpans) cover(from, to int64) bool {
	for i := r.at(from); i < len(r) && r[i].from <= from; i++ {
		if from = r[i].to; from >= to {
			return true
		}
	}
	return from >= to
}

// with returns the spans with those rows of a segment that are missing.
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
