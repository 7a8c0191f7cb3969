package plan

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strconv"
)

// Run is consecutive ranges of a lane, most of them of one bucket, or of none. Its rows are permuted together, if the
// plan permutes rows: docs/spec/order.md, "Windows".
//
// Its stored rows, one range after the other in stored order, are divided into parts. Each part is a sequence that
// begins at a drawn row, continues at its first row after its last one, and is divided into as many
// blocks as the run has windows. Window w is block w of every part.
type Run struct {
	First   int   // index of its first range in the lane
	Rows    int64 // of its ranges, as stored
	Windows int64
	Parts   []RunPart

	ranges []Range // in stored order
	places []int   // by range of ranges: its index in the lane, less First
	starts []int64 // by range of ranges: the number of its first row in the run
}

// RunPart is one part of a run.
type RunPart struct {
	first  int64 // its first row in the run
	rows   int64
	start  int64 // where its sequence begins, counted from its first row
	blocks shares
}

// Section is consecutive stored rows of a part: all of one range, and in the order of the part.
type Section struct {
	Range  int   // index in the lane
	Order  int   // of the range in the run, as they are stored
	Rows   Range // of the split
	offset int64 // of its first row in the part's sequence
}

// shares divides rows evenly: the first ones get one more.
type shares struct{ rows, of int64 }

// before returns the number of rows in the first n shares.
func (s shares) before(n int64) int64 { return n*(s.rows/s.of) + min(n, s.rows%s.of) }

// at returns the share that has a row.
func (s shares) at(row int64) int64 {
	each, more := s.rows/s.of, s.rows%s.of
	if row < more*(each+1) {
		return row / (each + 1)
	}
	return more + (row-more*(each+1))/each
}

// Runs returns the runs of a lane, whose rows are permuted within windows.
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

// sameRun reports whether two consecutive ranges of a lane are of one run: those of one bucket, or of none, whatever their
// partitions, and a range of a split that was cut, which covers a part of the time only.
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

// drawStart returns where the sequence of a part begins: a row that is drawn by the seed, the epoch, the
// split and the row at which the run begins, and the number of the part. If repeated rows are dropped, a range is read whole for any of its
// rows: then it is the first row.
func (b *Bound) drawStart(id string, first, part, rows int64) int64 {
	if rows == 0 || b.Relation.Distinct != nil {
		return 0
	}
	drawn := b.mix("part", id, strconv.FormatInt(first, 10), strconv.FormatInt(part, 10))
	return int64(binary.BigEndian.Uint64(drawn) % uint64(rows))
}

// Ranges returns the number of ranges of the run.
func (r *Run) Ranges() int { return len(r.ranges) }

// RowsBefore returns the number of stored rows in the windows before one.
func (r *Run) RowsBefore(window int64) int64 {
	rows := int64(0)
	for _, part := range r.Parts {
		rows += part.blocks.before(window)
	}
	return rows
}

// WindowAt returns the window of a row, counted from the first row of the first window.
func (r *Run) WindowAt(row int64) int64 {
	return int64(sort.Search(int(r.Windows), func(window int) bool { return r.RowsBefore(int64(window)+1) > row }))
}

// Sections returns the rows of a part from the first row of a window's block on, in the order of the
// part's sequence.
func (r *Run) Sections(part int, window int64) []Section {
	p := r.Parts[part]
	var sections []Section
	for offset := p.blocks.before(window); offset < p.rows; {
		row := p.first + (p.start+offset)%p.rows
		last := min(row+p.rows-offset, p.first+p.rows) // up to the part's last row, or the end of its sequence
		at := r.rangeOf(row)
		of := r.ranges[at]
		rows := Range{Split: of.Split, From: of.From + row - r.starts[at]}
		rows.To = min(of.To, rows.From+last-row)
		sections = append(sections, Section{Range: r.First + r.places[at], Order: at, Rows: rows, offset: offset})
		offset += rows.To - rows.From
	}
	return sections
}

// rangeOf returns the index of the range, in the run, that has a row of the run.
func (r *Run) rangeOf(row int64) int {
	at, found := slices.BinarySearch(r.starts, row)
	if !found {
		at--
	}
	return at
}

// WindowOf returns the window of a stored row of a section of a part, given its number in the split.
func (r *Run) WindowOf(part int, section Section, row int64) int64 {
	return r.Parts[part].blocks.at(section.offset + row - section.Rows.From)
}

// LastOf returns the last row of a section, by its number in the split, that is in a window.
func (r *Run) LastOf(part int, section Section, window int64) int64 {
	end := r.Parts[part].blocks.before(window + 1)
	return min(section.Rows.From+end-section.offset, section.Rows.To) - 1
}

// Window returns the window of a stored row, given its split and its number there; -1 if the run does not have it.
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
