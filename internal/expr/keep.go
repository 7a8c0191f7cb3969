package expr

import (
	"github.com/penstock/penstock/internal/expr/operator"
)

func (c constant) keep(_ *evaluation, rows []uint64) {
	if !c {
		clear(rows)
	}
}

func (n *null) keep(e *evaluation, rows []uint64) {
	a := e.array(n.column, rows)
	if a == nil {
		return
	}
	defer a.Release()
	valid := operator.Validity(a)
	e.each(rows, func(begin, end int) uint64 {
		if n.isNull {
			return ^valid(begin, end)
		}
		return valid(begin, end)
	})
}

func (l *leaf) keep(e *evaluation, rows []uint64) {
	a := e.array(l.column, rows)
	if a == nil {
		return
	}
	defer a.Release()
	valid, match := operator.Validity(a), l.match(a)
	if _, opposite := l.test.primitive(); opposite {
		e.each(rows, func(begin, end int) uint64 { return ^match(begin, end) & valid(begin, end) })
		return
	}
	e.each(rows, func(begin, end int) uint64 { return match(begin, end) & valid(begin, end) })
}

func (p *pair) keep(e *evaluation, rows []uint64) {
	a, b := e.array(p.left, rows), e.array(p.right, rows)
	if a != nil {
		defer a.Release()
	}
	if b != nil {
		defer b.Release()
	}
	if a == nil || b == nil {
		return
	}
	validLeft, validRight, match := operator.Validity(a), operator.Validity(b), p.match(a, b)
	e.each(rows, func(begin, end int) uint64 {
		return match(begin, end) & validLeft(begin, end) & validRight(begin, end)
	})
}

func (j *junction) keep(e *evaluation, rows []uint64) {
	if j.all {
		for _, t := range j.terms {
			t.keep(e, rows)
		}
		return
	}
	// open has the rows that no term has kept so far. Those that are left after the last term are
	// removed from rows.
	open, kept := e.bitmap(), e.bitmap()
	copy(open, rows)
	for _, t := range j.terms {
		copy(kept, open)
		t.keep(e, kept)
		subtract(open, kept)
	}
	subtract(rows, open)
	e.recycle(open)
	e.recycle(kept)
}

// each clears the bits of those rows for which word returns no bit. It skips words without rows, so
// that a later term of AND takes time only for rows that the earlier terms have kept.
func (e *evaluation) each(rows []uint64, word wordFunc) {
	for w := range rows {
		if rows[w] != 0 {
			begin := w * 64
			rows[w] &= word(begin, min(begin+64, e.rows))
		}
	}
}
