package loader

import (
	"fmt"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// checkSteps says whether the steps of cursors can belong to their rows and positions:
// each step gave at least one row, or request, of a lane, so that no step is only where
// nothing was given, and there never are more steps than rows. A wrong step would let
// ranks end apart, and workers take the steps of others.
func checkSteps(p *plan.Plan, cursors dataset.Cursors) error {
	for i, c := range cursors {
		wrong := ""
		switch {
		case c.Step == 0 && c.Given > 0:
			wrong = fmt.Sprintf("no step was given, and each lane gave %s", givenBy(c))
		case c.Step == 0 && givenWithin(c):
			wrong = "no step was given, and a lane stands behind rows of a split"
		case c.Step > c.Given && !c.Uneven:
			wrong = fmt.Sprintf("there were %s, and each lane gave %s: a step gives one at least", fault.Count(c.Step, "step"), givenBy(c))
		}
		if wrong != "" {
			return fault.InvalidField(fmt.Sprintf("cursor[%d].step", i), "%s", wrong).
				WithRemedy("resume with the cursor as it came")
		}
	}
	if steps(cursors) > 0 && atStart(p, cursors) {
		return fault.InvalidField("cursor[0].step", "there were %s, and every lane stands at its start", fault.Count(steps(cursors), "step")).
			WithRemedy("resume with the cursor as it came, or without one to begin")
	}
	return nil
}

// givenBy is how much each lane of a cursor gave.
func givenBy(c dataset.Cursor) string {
	if c.Requests {
		return fault.Count(c.Given, "request")
	}
	return fault.Count(c.Given, "row")
}

// givenWithin says whether a lane stands behind rows of a range that it has not ended.
func givenWithin(c dataset.Cursor) bool {
	for _, at := range c.At {
		if at.Row > 0 {
			return true
		}
	}
	return false
}

// steps is the number of steps that the furthest of some cursors was given.
func steps(cursors dataset.Cursors) int64 {
	var most int64
	for _, c := range cursors {
		most = max(most, c.Step)
	}
	return most
}

// atStart says whether cursors of all lanes stand where every lane begins, and a lane has
// rows to begin with.
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
