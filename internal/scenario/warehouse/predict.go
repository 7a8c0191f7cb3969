package warehouse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
)

// Prediction has the settings of a read that are not in the case's query.
type Prediction struct {
	// Pinned pins the snapshots that the query reads.
	Pinned bool
}

// judgeOrder checks whether a read fails if the order in which rows were written is unknown. If err
// says so, and some order is in fact unknown, it returns a name for this reason. If the order
// changes the result, the read must fail: otherwise, judgeOrder returns a Difference.
func judgeOrder(c *scenario.Case, w *scenario.World, p Prediction, want scenario.Expectation, err error) (string, scenario.Difference) {
	kind, can, said := fault.Invalid, false, false
	if p.Pinned {
		kind = fault.Expired
	}
	for _, table := range c.Chosen() {
		unknown := w.Unordered(table)
		can = can || unknown
		// The error of a refused plan tells whether the order was known at some time. The error of
		// a stream with a tie does not.
		tie := err != nil && fault.KindOf(err) == fault.Invalid && strings.Contains(err.Error(), "that order_by does not tell apart")
		said = said || unknown && err != nil && (fault.KindOf(err) == kind || tie) && strings.Contains(err.Error(), "is unknown") && strings.Contains(err.Error(), table)
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

// sameRows reports whether the oracle expects the same rows in two worlds.
func sameRows(a, b scenario.Expectation) bool {
	x, y := scenario.Texts(a.Rows), scenario.Texts(b.Rows)
	slices.Sort(x)
	slices.Sort(y)
	return a.Fails == b.Fails && slices.Equal(x, y)
}
