package scale

import (
	"math"
	"slices"
)

// Basis is what a figure rests on.
type Basis string

// The bases, from the firmest to the weakest.
const (
	Given    Basis = "given"    // by the caller
	Metadata Basis = "metadata" // of the tables, exactly
	Measured Basis = "measured" // a rate that was measured on other tables (docs/scale.md)
	Estimate Basis = "estimate" // from sizes of types and files
	Assumed  Basis = "assumed"  // the caller gave no value
)

// quantity is a number with its basis. What is computed from quantities has the weakest of their bases.
type quantity struct {
	value float64
	rests Basis
}

// given returns a number that the caller gave, or an exact one.
func given(value float64) quantity { return quantity{value, Given} }

// orAssumed returns a number that the caller gave or, if it is 0, an assumed one.
func orAssumed(value, assumed float64) quantity {
	if value > 0 {
		return given(value)
	}
	return quantity{assumed, Assumed}
}

// computed returns a number that was computed from quantities, and from facts with a basis.
func computed(value float64, facts Basis, from ...quantity) quantity {
	out := quantity{value, facts}
	for _, q := range from {
		out.rests = weaker(out.rests, q.rests)
	}
	return out
}

func (q quantity) times(by quantity) quantity { return computed(q.value*by.value, q.rests, by) }

func (q quantity) over(by quantity) quantity { return computed(q.value/by.value, q.rests, by) }

// wholes returns the least whole number that is at least the quantity and at least 1.
func (q quantity) wholes() quantity { return quantity{max(1, math.Ceil(q.value)), q.rests} }

// weaker returns the weaker of two bases.
func weaker(a, b Basis) Basis {
	order := []Basis{Given, Metadata, Measured, Estimate, Assumed}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}
