package stream

import (
	"fmt"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// checkSteps checks that the steps of cursors are consistent with their rows and positions. Each
// step has returned at least one row, or request, of a lane. So if no step was returned, no row was
// returned, and there are never more steps than rows. If a cursor's step were wrong, ranks could
// end at different steps, and DataLoader workers would return steps of other workers.
func checkSteps(p *plan.Plan, cursors dataset.Cursors) error {
	for i, c := range cursors {
		wrong := ""
		switch {
		case c.Step == 0 && c.Given > 0:
			wrong = fmt.Sprintf("no step was returned, but each lane returned %s", givenBy(c))
		case c.Step == 0 && givenWithin(c):
			wrong = "no step was returned, but a lane is after rows of a split"
		case c.Step > c.Given && !c.Uneven:
			wrong = fmt.Sprintf("%s were returned, but each lane returned %s: a step returns at least one", fault.Count(c.Step, "step"), givenBy(c))
		}
		if wrong != "" {
			return fault.InvalidField(fmt.Sprintf("cursor[%d].step", i), "%s", wrong).
				WithRemedy("resume with the unchanged cursor")
		}
	}
	if steps(cursors) > 0 && atStart(p, cursors) {
		return fault.InvalidField("cursor[0].step", "%s were returned, but every lane is at its start", fault.Count(steps(cursors), "step")).
			WithRemedy("resume with the unchanged cursor, or without one to begin")
	}
	return nil
}

// givenBy describes how many rows or requests each lane of a cursor has returned.
func givenBy(c dataset.Cursor) string {
	if c.Requests {
		return fault.Count(c.Given, "request")
	}
	return fault.Count(c.Given, "row")
}

// givenWithin reports whether the position of any lane is after at least one row of a range.
func givenWithin(c dataset.Cursor) bool {
	for _, at := range c.At {
		if at.Row > 0 {
			return true
		}
	}
	return false
}

// steps returns the largest number of steps among cursors.
func steps(cursors dataset.Cursors) int64 {
	var most int64
	for _, c := range cursors {
		most = max(most, c.Step)
	}
	return most
}

// atStart reports whether three conditions hold: the cursors have positions for all lanes, each
// position is the start of its lane, and at least one lane has rows.
func atStart(p *plan.Plan, cursors dataset.Cursors) bool {
	lanes, some := 0, false
	for _, c := range cursors {
		for _, at := range c.At {
			if at.Range > 0 || at.Window > 0 || at.Row > 0 {
				return false
			}
			lanes++
			some = some || len(p.Lanes[at.Lane].Ranges) > 0
		}
	}
	return some && lanes == len(p.Lanes)
}
