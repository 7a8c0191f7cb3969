package batch

import (
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/invariant"
)

const (
	// copyBytes is the size of the result, in bytes, from which on a copy of values is divided.
	copyBytes = 64 << 10
	// coreBytes is the number of bytes to be copied for which it is worthwhile to wake a core.
	coreBytes = 128 << 10
	// testedDivisor divides both sizes in invariant builds, so that small tests divide their copies.
	testedDivisor = 1 << 11
)

// dividedBytes returns the given one of the sizes above.
func dividedBytes(size int) int {
	if invariant.On {
		return size / testedDivisor
	}
	return size
}

// deferredCopy fills a part of a result. Copies do not depend on one another.
type deferredCopy struct {
	bytes int
	run   func()
}

// Defer makes the following calls of Gather leave values and texts out of their results, until
// Complete copies them. Until then, only lengths, nulls and offsets of the results may be used, and
// the sources must not be released or changed. Release ends the effect of Defer.
func (g *Gatherer) Defer() { g.defers = true }

// Complete copies what was deferred, on idle cores too.
func (g *Gatherer) Complete(on *cores.Cores) error {
	err := on.Groups(len(g.deferred), dividedBytes(coreBytes), func(i int) int { return g.deferred[i].bytes }, func(i int) { g.deferred[i].run() })
	clear(g.deferred)
	g.deferred = g.deferred[:0]
	return err
}

// copies calls do for all rows of an input or, if copies are deferred, makes Complete call it for
// parts of the rows. width is the size of a row in the result, in bytes. from is the number of rows
// of the input before the part.
func (g *gathering) copies(p input, width int, do func(part input, from int)) {
	if !g.defers {
		do(p, 0)
		return
	}
	from := 0
	for _, part := range p.divided(max(1, dividedBytes(copyBytes)/max(1, width))) {
		before := from
		g.copyWhole(part.rows*width, func() { do(part, before) })
		from += part.rows
	}
}

// copyWhole calls do or, if copies are deferred, makes Complete call it.
func (g *gathering) copyWhole(bytes int, do func()) {
	if !g.defers {
		do()
		return
	}
	g.deferred = append(g.deferred, deferredCopy{bytes, do})
}

// divided divides an input into parts of consecutive rows. A part has at most the given number of
// rows, at least 1, or it has whole spans of which only the last one begins before that number.
func (p input) divided(most int) []input {
	if p.rows <= most || p.data == nil {
		return []input{p}
	}
	var parts []input
	add := func(s selection) { parts = append(parts, input{p.data, p.base, &s}) }
	for indices := p.indices; len(indices) > 0; {
		n := min(most, len(indices))
		add(selection{indices: indices[:n], rows: n})
		indices = indices[n:]
	}
	first, rows := 0, 0 // the spans that are in no part yet
	for i, s := range p.spans {
		if rows += s.rows; rows < most && i < len(p.spans)-1 {
			continue
		}
		if s.rows < most {
			add(selection{spans: p.spans[first : i+1], rows: rows})
		} else {
			if first < i {
				add(selection{spans: p.spans[first:i], rows: rows - s.rows})
			}
			for ; s.rows > 0; s.from, s.rows = s.from+most, s.rows-most {
				n := min(most, s.rows)
				add(selection{spans: []span{{s.from, n}}, rows: n})
			}
		}
		first, rows = i+1, 0
	}
	return parts
}
