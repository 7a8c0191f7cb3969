package dataset

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
)

// Counted is how many rows a plan gives, where they were counted, as cursors and
// tickets carry it: rows of the final sequences, after all filters and joins.
type Counted struct {
	Rows     int64   `json:"rows"`     // of all lanes of the plan
	Shortest int64   `json:"shortest"` // of its lanes
	Longest  int64   `json:"longest"`
	Lanes    []int64 `json:"lanes"` // of each lane of the shard, in ascending order
}

// Counts is how many rows a plan gives. Its zero value knows of no lane.
type Counts struct {
	Rows, Shortest, Longest int64
	Lanes                   []int64 // by number of the lane; UnknownRows where that is not known
}

// UnknownRows stands for a number of rows that nobody knows.
const UnknownRows = -1

// NewCounts makes the counts of a plan of the rows of its lanes, of which there is at
// least one.
func NewCounts(lanes []int64) *Counts {
	c := &Counts{Shortest: slices.Min(lanes), Longest: slices.Max(lanes), Lanes: lanes}
	for _, rows := range lanes {
		c.Rows += rows
	}
	return c
}

// Steps returns how many steps there are with q rows of each lane in each. TailDrop
// ends with the shortest lane's last full step, TailKeep with the longest lane's last
// row.
func (c *Counts) Steps(tail Tail, q int64) int64 {
	if tail.Drops() {
		return c.Shortest / q
	}
	return (c.Longest + q - 1) / q
}

// Of returns what a cursor or a ticket of a shard carries.
func (c *Counts) Of(shard Shard) *Counted {
	out := &Counted{Rows: c.Rows, Shortest: c.Shortest, Longest: c.Longest, Lanes: []int64{}}
	for lane := shard.Index; lane < len(c.Lanes); lane += shard.Of {
		out.Lanes = append(out.Lanes, c.Lanes[lane])
	}
	return out
}

// Knows says whether the rows of every lane of a shard are known.
func (c *Counts) Knows(shard Shard) bool {
	for lane := shard.Index; lane < len(c.Lanes); lane += shard.Of {
		if c.Lanes[lane] == UnknownRows {
			return false
		}
	}
	return true
}

// add takes over what a shard of so many lanes carries.
func (c *Counts) add(of *Counted, shard Shard) {
	for i, rows := range of.Lanes {
		c.Lanes[shard.Index+i*shard.Of] = rows
	}
}

// unknownLanes returns the counts of a plan of so many lanes without the lanes.
func (of *Counted) unknownLanes(lanes int) *Counts {
	return &Counts{Rows: of.Rows, Shortest: of.Shortest, Longest: of.Longest, Lanes: slices.Repeat([]int64{UnknownRows}, lanes)}
}

// Counts returns the counts for a plan of so many lanes, of which one shard's are known.
// Ones that cannot be are Invalid.
func (of *Counted) Counts(lanes int, shard Shard) (*Counts, error) {
	out := of.unknownLanes(lanes)
	if problem := of.problem(lanes, shard); problem != "" {
		return nil, miscounted("counted", problem)
	}
	out.add(of, shard)
	return out, nil
}

// problem says why the counts of a shard cannot be; "" if they can.
func (of *Counted) problem(lanes int, shard Shard) string {
	if want := lanes / max(1, shard.Of); shard.Of < 1 || len(of.Lanes) != want {
		return fmt.Sprintf("shard %d of %d reads %d lanes, rows are counted of %d", shard.Index, shard.Of, want, len(of.Lanes))
	}
	return of.impossible(lanes)
}

// impossible says why a plan of so many lanes cannot have the rows of those that are
// known; "" if it can.
func (of *Counted) impossible(lanes int) string {
	rows := int64(0)
	for _, n := range of.Lanes {
		rows += n
	}
	others := int64(lanes - len(of.Lanes))
	shortest, longest := slices.Min(of.Lanes), slices.Max(of.Lanes)
	switch {
	case shortest < of.Shortest || longest > of.Longest:
	case others == 0 && (shortest > of.Shortest || longest < of.Longest):
	case rows+others*of.Shortest > of.Rows || rows+others*of.Longest < of.Rows:
	default:
		return ""
	}
	return fmt.Sprintf("%d lanes of %d to %d rows with %d in all cannot be: %d of them have %d to %d rows, %d in all",
		lanes, of.Shortest, of.Longest, of.Rows, len(of.Lanes), shortest, longest, rows)
}

// Counts returns the counts that the cursors carry, which must agree; nil if one of
// them carries none. The error is Invalid and names the cursor.
func (cs Cursors) Counts() (*Counts, error) {
	if slices.ContainsFunc(cs, func(c Cursor) bool { return c.Counted == nil }) || len(cs) == 0 {
		return nil, nil //nolint:nilnil // they were not counted
	}
	first := cs[0]
	out := first.Counted.unknownLanes(first.Lanes)
	for i, c := range cs {
		of := c.Counted
		problem := of.problem(c.Lanes, c.Shard)
		if problem == "" && (of.Rows != out.Rows || of.Shortest != out.Shortest || of.Longest != out.Longest || c.Lanes != first.Lanes) {
			problem = fmt.Sprintf("it has %d rows in lanes of %d to %d, cursor[0] has %d in lanes of %d to %d",
				of.Rows, of.Shortest, of.Longest, out.Rows, out.Shortest, out.Longest)
		}
		if problem != "" {
			return nil, miscounted(cursorField(i)+".counted", problem)
		}
		out.add(of, c.Shard)
	}
	if out.Knows(Shard{Of: 1}) {
		if problem := out.Of(Shard{Of: 1}).impossible(len(out.Lanes)); problem != "" {
			return nil, miscounted("cursor", problem)
		}
	}
	return out, nil
}

// miscounted refuses counts that cannot be.
func miscounted(field, problem string) error {
	return fault.InvalidField(field, "%s", problem).WithRemedy("resume with the cursors of one run, as they came")
}

func (d *decoder) counted(at place) *Counted {
	var out Counted
	object(d, at, &out, must([]field[Counted]{
		{name: "rows", read: func(d *decoder, at place, c *Counted) { c.Rows = d.whole(at, 0, maxInt64) }},
		{name: "shortest", read: func(d *decoder, at place, c *Counted) { c.Shortest = d.whole(at, 0, maxCounted) }},
		{name: "longest", read: func(d *decoder, at place, c *Counted) { c.Longest = d.whole(at, 0, maxCounted) }},
		{name: "lanes", read: func(d *decoder, at place, c *Counted) {
			c.Lanes = list(d, at, maxLanes, func(d *decoder, at place) int64 { return d.whole(at, 0, maxCounted) })
		}},
	}))
	return &out
}

// checkCounted says whether the counts of a cursor can be those of its shard.
func (d *decoder) checkCounted(at place, c Cursor) {
	if c.Counted == nil || !d.sound(at.path) {
		return
	}
	if problem := c.Counted.problem(c.Lanes, c.Shard); problem != "" {
		d.fail(join(at.path, "counted"), "%s", problem)
	}
}
