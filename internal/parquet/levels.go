package parquet

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// levelWindow is how many levels are decoded at a time: few enough for the
// nearest cache, and a multiple of 64.
const levelWindow = 2048

// listLevels reads the levels of a list of primitives a window at a time. A
// definition level says, from the highest down: an element, a null element (if
// elements may be null), an empty list, no list (if lists may be null). A
// repetition level says whether the row goes on with it.
type listLevels struct {
	element int // the definition level of an element that is not null
	some    int // the least level of an element; one less is an empty list

	repetition hybrid // of the open page
	definition hybrid
	left       int // levels of the open page behind the window

	size, at  int                   // of the window: its levels, and those that are read
	full      bool                  // each level of the window is an element that is not null
	continues [levelWindow / 8]byte // bits: the row goes on
	defined   [levelWindow]byte     // definition levels, unless full
}

var errContinued = errors.New("a row goes on that did not begin with an element")

// open begins with the levels of a page.
func (l *listLevels) open(p *page) {
	l.repetition = hybrid{rest: p.repetition, width: 1}
	l.definition = hybrid{rest: p.definition, width: bits.Len(uint(l.element))}
	l.left, l.size, l.at = p.count, 0, 0
}

// load decodes the next window if the open one is read; false at the end of
// the page.
func (l *listLevels) load() (bool, error) {
	if l.at < l.size {
		return true, nil
	}
	if l.left == 0 {
		return false, nil
	}
	n := min(l.left, levelWindow)
	alike, err := l.definition.alike(uint32(l.element))
	if err != nil {
		return false, err
	}
	if l.full = alike >= min(n, 64); l.full {
		n = min(n, alike)
		l.definition.repeat -= n
	} else if err := l.definition.numbers(l.defined[:n]); err != nil {
		return false, err
	}
	clear(l.continues[:])
	if _, err := l.repetition.present(l.continues[:], 0, n); err != nil {
		return false, err
	}
	l.left, l.size, l.at = l.left-n, n, 0
	return true, nil
}

// begins says whether the next level begins a row.
func (l *listLevels) begins() bool { return !bitutil.BitIsSet(l.continues[:], l.at) }

// nextBegin finds the next level of the window that begins a row; the window's
// size if there is none.
func (l *listLevels) nextBegin() int {
	for at := l.at &^ 63; at < l.size; at += 64 {
		word := ^binary.LittleEndian.Uint64(l.continues[at/8:])
		if at < l.at {
			word = word >> (l.at - at) << (l.at - at)
		}
		if word != 0 {
			return min(at+bits.TrailingZeros64(word), l.size)
		}
	}
	return l.size
}

// read reads levels of the window until there are as many rows as wanted and
// another begins, or the window ends. It returns the number of elements, and
// of those that are not null.
func (l *listLevels) read(out *listRows, wanted int) (elements, present int, err error) {
	if l.full {
		if !l.begins() && out.last < l.some {
			return 0, 0, errContinued
		}
		n := l.readFull(out, wanted)
		out.last = l.element
		return n, n, nil
	}
	for ; l.at < l.size; l.at++ {
		level := int(l.defined[l.at])
		switch begins := l.begins(); {
		case level > l.element:
			return 0, 0, errRuns
		case begins && out.rows == wanted:
			return elements, present, nil
		case begins:
			out.begin(elements, level >= l.some-1)
		case level < l.some || out.last < l.some:
			return 0, 0, errContinued
		}
		out.last = level
		if level >= l.some {
			elements++
		}
		if level == l.element {
			present++
		}
	}
	return elements, present, nil
}

// readFull is read where each level is an element: only the beginnings of rows
// are looked for.
func (l *listLevels) readFull(out *listRows, wanted int) int {
	from := l.at
	for {
		l.at = l.nextBegin()
		if l.at == l.size || out.rows == wanted {
			return l.at - from
		}
		out.begin(l.at-from, true)
		l.at++
	}
}

// mark sets the bits, from at on, of elements that are not null, among those
// of the window's levels from a position on to the next to be read.
func (l *listLevels) mark(validity []byte, from, at int) {
	if l.full {
		bitutil.SetBitsTo(validity, int64(at), int64(l.at-from), true)
		return
	}
	for _, level := range l.defined[from:l.at] {
		if int(level) < l.some {
			continue
		}
		if int(level) == l.element {
			bitutil.SetBit(validity, at)
		}
		at++
	}
}
