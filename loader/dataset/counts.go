package dataset

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
)

// Counted is the number of rows that a plan returns, in the form that cursors and tickets carry if
// rows were counted. It counts the rows that are left after all filters and joins.
type Counted struct {
	Rows     int64   `json:"rows"`     // in all lanes of the plan
	Shortest int64   `json:"shortest"` // rows of the plan's shortest lane
	Longest  int64   `json:"longest"`
	Lanes    []int64 `json:"lanes"` // rows of each lane of the shard, in ascending order of lanes
}

// Counts is the number of rows that a plan returns. The zero value has no lanes.
type Counts struct {
	Rows, Shortest, Longest int64
	Lanes                   []int64 // indexed by lane; UnknownRows if a lane's rows are not known
}

// UnknownRows marks an unknown number of rows.
const UnknownRows = -1

// NewCounts returns the counts of a plan whose lanes have the given numbers of rows.
// There must be at least one lane.
func NewCounts(lanes []int64) *Counts {
	c := &Counts{Shortest: slices.Min(lanes), Longest: slices.Max(lanes), Lanes: lanes}
	for _, rows := range lanes {
		c.Rows += rows
	}
	return c
}

// Steps returns the number of steps if each takes q rows of every lane. TailDrop ends
// with the last full step of the shortest lane, and TailKeep with the last row of the
// longest lane.
func (c *Counts) Steps(tail Tail, q int64) int64 {
	if tail.Drops() {
		return c.Shortest / q
	}
	return (c.Longest + q - 1) / q
}

// Of returns the counts for a cursor or ticket of a shard.
func (c *Counts) Of(shard Shard) *Counted {
	out := &Counted{Rows: c.Rows, Shortest: c.Shortest, Longest: c.Longest, Lanes: []int64{}}
	for lane := shard.Index; lane < len(c.Lanes); lane += shard.Of {
		out.Lanes = append(out.Lanes, c.Lanes[lane])
	}
	return out
}

// Knows reports whether the rows of every lane of a shard are known.
func (c *Counts) Knows(shard Shard) bool {
	for lane := shard.Index; lane < len(c.Lanes); lane += shard.Of {
		if c.Lanes[lane] == UnknownRows {
			return false
		}
	}
	return true
}

// add sets the rows of a shard's lanes.
func (c *Counts) add(of *Counted, shard Shard) {
	for i, rows := range of.Lanes {
		c.Lanes[shard.Index+i*shard.Of] = rows
	}
}

// unknownLanes returns counts that have only the plan's totals: the rows of every lane are unknown.
func (of *Counted) unknownLanes(lanes int) *Counts {
	return &Counts{Rows: of.Rows, Shortest: of.Shortest, Longest: of.Longest, Lanes: slices.Repeat([]int64{UnknownRows}, lanes)}
}

// Counts returns the counts of a plan with the given number of lanes, in which only the
// lanes of one shard are known. It returns an Invalid error if the counts are
// inconsistent.
func (of *Counted) Counts(lanes int, shard Shard) (*Counts, error) {
	out := of.unknownLanes(lanes)
	if problem := of.problem(lanes, shard); problem != "" {
		return nil, miscounted("counted", problem)
	}
	out.add(of, shard)
	return out, nil
}

// problem describes why the counts of a shard are inconsistent. It returns "" if they are
// consistent.
func (of *Counted) problem(lanes int, shard Shard) string {
	if want := lanes / max(1, shard.Of); shard.Of < 1 || len(of.Lanes) != want {
		return fmt.Sprintf("shard %d of %d reads %d lanes, but counts are given for %d", shard.Index, shard.Of, want, len(of.Lanes))
	}
	return of.impossible(lanes)
}

// impossible describes why the known lanes contradict the totals of a plan with the given
// number of lanes. It returns "" if they do not.
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
	return fmt.Sprintf("%d lanes of %d to %d rows, %d in total, are impossible: %d of them have %d to %d rows, %d in total",
		lanes, of.Shortest, of.Longest, of.Rows, len(of.Lanes), shortest, longest, rows)
}

// Counts combines the counts that the cursors carry, which must agree. It returns nil if any cursor
// carries no counts. The error is Invalid and names the cursor.
func (cs Cursors) Counts() (*Counts, error) {
	if slices.ContainsFunc(cs, func(c Cursor) bool { return c.Counted == nil }) || len(cs) == 0 {
		return nil, nil //nolint:nilnil // rows were not counted
	}
	first := cs[0]
	out := first.Counted.unknownLanes(first.Lanes)
	for i, c := range cs {
		of := c.Counted
		problem := of.problem(c.Lanes, c.Shard)
		if problem == "" && (of.Rows != out.Rows || of.Shortest != out.Shortest || of.Longest != out.Longest || c.Lanes != first.Lanes) {
			problem = fmt.Sprintf("it has %d rows in lanes of %d to %d, but cursor[0] has %d in lanes of %d to %d",
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

// miscounted returns the error for inconsistent counts.
func miscounted(field, problem string) error {
	return fault.InvalidField(field, "%s", problem).WithRemedy("resume with the unmodified cursors of one run")
}
