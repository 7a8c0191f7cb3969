package dataset

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Merged is the combined position of several cursors.
type Merged struct {
	Lanes int        // of the plan
	At    []Position // in ascending order of lanes; every lane, or the lanes of a single cursor's shard
	Given []int64    // rows or requests per lane, for each cursor in the order of the list
}

// Merge combines the positions of cursors. The cursors must be of the same plan and have
// each lane exactly once; a single cursor may have only the lanes of its shard. The error
// is Invalid and names the cursor, such as "cursor[1]".
//
// Merge does not compare the values of Given, although they must be equal. The reason is that a
// shard whose lanes have ended may have a lower value, and only the plan knows where a lane ends.
func (cs Cursors) Merge() (Merged, error) {
	if len(cs) == 0 {
		return Merged{}, fault.InvalidField("cursor", "there is no cursor")
	}
	out := Merged{Lanes: cs[0].Lanes}
	holder := map[int]int{}
	for i, c := range cs {
		if err := samePlan(i, c, cs[0]); err != nil {
			return Merged{}, err
		}
		for _, p := range c.At {
			if p.Lane < 0 || p.Lane >= out.Lanes {
				return Merged{}, fault.InvalidField(cursorField(i), "lane %d is outside of the %d lanes", p.Lane, out.Lanes)
			}
			if first, twice := holder[p.Lane]; twice {
				return Merged{}, fault.InvalidField(cursorField(i), "lane %d is already in %s", p.Lane, cursorField(first)).
					WithRemedy("give one cursor of each shard, all saved after the same step")
			}
			holder[p.Lane] = i
		}
		out.At, out.Given = append(out.At, c.At...), append(out.Given, c.Given)
	}
	slices.SortFunc(out.At, func(a, b Position) int { return cmp.Compare(a.Lane, b.Lane) })
	if err := cs.covered(holder); err != nil {
		return Merged{}, err
	}
	return out, nil
}

// covered returns an error if the cursors do not cover all lanes that they must.
func (cs Cursors) covered(holder map[int]int) error {
	first, step := 0, 1
	if len(cs) == 1 {
		first, step = cs[0].Shard.Index, max(1, cs[0].Shard.Of)
	}
	var without []string
	for lane := max(0, first); lane < cs[0].Lanes; lane += step {
		if _, ok := holder[lane]; !ok {
			without = append(without, strconv.Itoa(lane))
		}
	}
	if len(without) == 0 {
		return nil
	}
	return fault.InvalidField("cursor", "no cursor has lanes %s of %d", fault.Shorten(strings.Join(without, ", "), 80), cs[0].Lanes).
		WithRemedy("give the cursors of all shards of the run as a list")
}

// samePlan returns an error if a cursor is of a different plan than the first.
func samePlan(i int, c, first Cursor) error {
	differs := Differences(c, first)
	if len(differs) == 0 {
		if c.Plan == first.Plan {
			return nil
		}
		differs = []string{"plan (" + c.Plan + ", not " + first.Plan + ")"}
	}
	e := fault.InvalidField(cursorField(i), "it belongs to a different plan than cursor[0]; what differs: %s", strings.Join(differs, ", "))
	e.Differs = differs
	return e.WithRemedy("give only cursors of one run")
}

func cursorField(i int) string { return "cursor[" + strconv.Itoa(i) + "]" }
