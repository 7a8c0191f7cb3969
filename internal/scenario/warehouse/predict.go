package warehouse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
)

// Prediction is what is asked of a case beyond its own query.
type Prediction struct {
	// Pinned lets the query say which snapshots it reads.
	Pinned bool
}

// judgeOrder returns the reason of an error that says that nobody knows which
// rows were written first, where that can matter. Where it does matter, there
// must be that error.
func judgeOrder(c *scenario.Case, w *scenario.World, p Prediction, want scenario.Expectation, err error) (string, scenario.Difference) {
	kind, can, said := fault.Invalid, false, false
	if p.Pinned {
		kind = fault.Expired
	}
	for _, table := range c.Chosen() {
		unknown := w.Unordered(table)
		can = can || unknown
		// A plan that is refused tells whether it was known once; a stream that meets a tie does not.
		tie := err != nil && fault.KindOf(err) == fault.Invalid && strings.Contains(err.Error(), "that order_by does not tell apart")
		said = said || unknown && err != nil && (fault.KindOf(err) == kind || tie) && strings.Contains(err.Error(), "nobody knows") && strings.Contains(err.Error(), table)
	}
	if !can || err != nil && !said {
		return "", scenario.Difference{}
	}
	matters := !sameRows(want, c.Expect(w.Turned()))
	switch {
	case said && matters:
		return "order, which shows", scenario.Difference{}
	case said:
		return "order", scenario.Difference{}
	case matters:
		return "", scenario.Difference{Kind: "an order was guessed", Text: fmt.Sprintf("%v", want.Rows)}
	default:
		return "", scenario.Difference{}
	}
}

// sameRows says whether an oracle expects the same of two worlds.
func sameRows(a, b scenario.Expectation) bool {
	x, y := scenario.Texts(a.Rows), scenario.Texts(b.Rows)
	slices.Sort(x)
	slices.Sort(y)
	return a.Fails == b.Fails && slices.Equal(x, y)
}
