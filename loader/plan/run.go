package plan

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strconv"
)

// Run is a sequence of consecutive ranges of a lane. All of its ranges belong to the same bucket,
// or have no bucket; ranges of cut splits may belong to other buckets. If the plan permutes rows,
// the rows of a run are permuted together: see docs/spec/order.md, "Windows".
//
// The rows of the ranges, in stored order, are divided into parts. Each part is a sequence that
// begins at a random row of the part and wraps around from the part's last row to its first. The
// sequence is divided into as many blocks as the run has windows. Window w consists of block w of
// every part.
type Run struct {
	First   int   // index, in the lane, of the run's first range
	Rows    int64 // stored rows of all ranges
	Windows int64
	Parts   []RunPart

	ranges []Range // in stored order
	places []int   // for each element of ranges: its index in the lane, minus First
	starts []int64 // for each element of ranges: the number of its first row in the run
}

// RunPart is one part of a run.
type RunPart struct {
	first  int64 // the number of the part's first row in the run
	rows   int64
	start  int64 // the row at which the sequence begins, counted from the part's first row
	blocks shares
}

// Section is a sequence of consecutive stored rows of one part and one range.
type Section struct {
	Range  int   // index in the lane
	Order  int   // position of the range in the run, in stored order
	Rows   Range // the section's rows in their split
	offset int64 // position of the first row in the part's sequence
}

// shares divides rows into shares of equal size, except that the first shares may have one row
// more.
type shares struct{ rows, of int64 }

// before returns the number of rows in the first n shares.
func (s shares) before(n int64) int64 { return n*(s.rows/s.of) + min(n, s.rows%s.of) }

// at returns the share that contains a row.
func (s shares) at(row int64) int64 {
	each, more := s.rows/s.of, s.rows%s.of
	if row < more*(each+1) {
		return row / (each + 1)
	}
	return more + (row-more*(each+1))/each
}

// Runs returns the runs of a lane. It is called only if the plan permutes rows within windows.
func (p *Plan) Runs(lane int) []Run {
	var runs []Run
	ranges := p.Lanes[lane].Ranges
	for from := 0; from < len(ranges); {
		run := p.runAt(lane, from)
		runs = append(runs, run)
		from += run.Ranges()
	}
	return runs
}

// LongestRun returns the number of rows of the longest run.
func (p *Plan) LongestRun() int64 {
	most := int64(0)
	for _, l := range p.Lanes {
		rows := int64(0)
		for i, r := range l.Ranges {
			if i > 0 && !p.sameRun(l.Ranges[i-1], r) {
				rows = 0
			}
			rows += r.To - r.From
			most = max(most, rows)
		}
	}
	return most
}

// runAt returns the run of a lane that begins with a range.
func (p *Plan) runAt(lane, from int) Run {
	ranges, to := p.Lanes[lane].Ranges, from+1
	for to < len(ranges) && p.sameRun(ranges[to-1], ranges[to]) {
		to++
	}
	return p.run(from, ranges[from:to])
}

// sameRun reports whether two consecutive ranges of a lane belong to one run. They do if they
// belong to the same bucket or both have no bucket; their partitions do not matter. They also do if
// b is a range of a cut split, because such a range covers only a part of its bucket's time range.
// If repeated rows are dropped, each range is a separate run.
func (p *Plan) sameRun(a, b Range) bool {
	of, next := p.Splits[a.Split], p.Splits[b.Split]
	cut := b.To-b.From < next.Rows
	return p.Relation.Distinct == nil && (cut || of.Bucket == next.Bucket)
}

// run returns the run of consecutive ranges, given the index of the first one.
func (p *Plan) run(first int, ranges []Range) Run {
	r := Run{First: first}
	for i := range ranges {
		r.places = append(r.places, i)
	}
	slices.SortFunc(r.places, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.storedOrder[ranges[a].Split], p.storedOrder[ranges[b].Split]), cmp.Compare(a, b))
	})
	for _, i := range r.places {
		r.ranges, r.starts = append(r.ranges, ranges[i]), append(r.starts, r.Rows)
		r.Rows += ranges[i].To - ranges[i].From
	}
	r.Windows = (r.Rows + p.Rows.ShuffleWindow - 1) / p.Rows.ShuffleWindow
	parts := shares{r.Rows, p.Rows.ShuffleParts}
	for i := range parts.of {
		part := RunPart{first: parts.before(i)}
		part.rows = parts.before(i+1) - part.first
		part.start = p.drawStart(p.Splits[ranges[0].Split].ID, ranges[0].From, i, part.rows)
		part.blocks = shares{part.rows, r.Windows}
		r.Parts = append(r.Parts, part)
	}
	return r
}

// drawStart returns the row at which the sequence of a part begins. The row is random. It depends
// on the seed, on the epoch, on the split and the row at which the run begins, and on the number of
// the part. If repeated rows are dropped, the sequence begins at the part's first row, since any
// reading of a range then requires reading the whole range.
func (b *Bound) drawStart(id string, first, part, rows int64) int64 {
	if rows == 0 || b.Relation.Distinct != nil {
		return 0
	}
	drawn := b.mix("part", id, strconv.FormatInt(first, 10), strconv.FormatInt(part, 10))
	return int64(binary.BigEndian.Uint64(drawn) % uint64(rows))
}

// Ranges returns the number of ranges of the run.
func (r *Run) Ranges() int { return len(r.ranges) }

// RowsBefore returns the number of stored rows in the windows before the given window.
func (r *Run) RowsBefore(window int64) int64 {
	rows := int64(0)
	for _, part := range r.Parts {
		rows += part.blocks.before(window)
	}
	return rows
}

// WindowAt returns the window of a row. Rows are numbered from the first row of the first window.
func (r *Run) WindowAt(row int64) int64 {
	return int64(sort.Search(int(r.Windows), func(window int) bool { return r.RowsBefore(int64(window)+1) > row }))
}

// Sections returns the rows of a part in the order of the part's sequence, starting at the first
// row of a window's block.
func (r *Run) Sections(part int, window int64) []Section {
	p := r.Parts[part]
	var sections []Section
	for offset := p.blocks.before(window); offset < p.rows; {
		row := p.first + (p.start+offset)%p.rows
		last := min(row+p.rows-offset, p.first+p.rows) // up to the part's last row, or to the end of the part's sequence
		at := r.rangeOf(row)
		of := r.ranges[at]
		rows := Range{Split: of.Split, From: of.From + row - r.starts[at]}
		rows.To = min(of.To, rows.From+last-row)
		sections = append(sections, Section{Range: r.First + r.places[at], Order: at, Rows: rows, offset: offset})
		offset += rows.To - rows.From
	}
	return sections
}

// rangeOf returns the index, within the run, of the range that contains a row of the run.
func (r *Run) rangeOf(row int64) int {
	at, found := slices.BinarySearch(r.starts, row)
	if !found {
		at--
	}
	return at
}

// WindowOf returns the window of a row in a section of a part. row is the row's number in the
// split.
func (r *Run) WindowOf(part int, section Section, row int64) int64 {
	return r.Parts[part].blocks.at(section.offset + row - section.Rows.From)
}

// LastOf returns the last row of a section that is in a window, by its number in the split.
func (r *Run) LastOf(part int, section Section, window int64) int64 {
	end := r.Parts[part].blocks.before(window + 1)
	return min(section.Rows.From+end-section.offset, section.Rows.To) - 1
}

// Window returns the window of a stored row, given its split and its number in the split, or -1 if
// the run does not contain the row.
func (r *Run) Window(split int, row int64) int64 {
	for i, of := range r.ranges {
		if of.Split == split && row >= of.From && row < of.To {
			return r.windowAt(r.starts[i] + row - of.From)
		}
	}
	return -1
}

// windowAt returns the window of a row of the run, by its number in stored order.
func (r *Run) windowAt(row int64) int64 {
	i := shares{r.Rows, int64(len(r.Parts))}.at(row)
	part := r.Parts[i]
	return part.blocks.at((row - part.first + part.rows - part.start) % part.rows)
}
