package decoder

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/penstock/penstock/internal/parquet/page"
)

// levelWindow is the number of levels decoded at a time: small enough for the L1 cache,
// and a multiple of 64.
const levelWindow = 2048

// listLevels decodes the levels of a list of primitives, one window of levels at a time. From the
// maximum down, the definition levels mean: an element that is not null, a null element (if
// elements are nullable), an empty list, a null list (if lists are nullable). A repetition level of
// 1 means that the element belongs to the same row as the one before.
type listLevels struct {
	element    int // definition level of an element that is not null
	minElement int // minimum definition level of an element; minElement-1 means an empty list

	repetition rleDecoder // of the open page
	definition rleDecoder
	left       int // number of levels of the open page that follow the window

	size, at  int                   // number of levels in the window, and index of the next level
	full      bool                  // whether all levels of the window are elements that are not null
	continues [levelWindow / 8]byte // bit by level: whether it continues the row of the level before
	defined   [levelWindow]byte     // definition levels; not set if full is true
}

var errContinued = errors.New("a list continues that did not start with an element")

// open starts decoding the levels of a page.
func (l *listLevels) open(p *page.Page) {
	l.repetition = rleDecoder{rest: p.Repetition, width: 1}
	l.definition = rleDecoder{rest: p.Definition, width: bits.Len(uint(l.element))}
	l.left, l.size, l.at = p.Count, 0, 0
}

// load decodes the next window if all levels of the current window were read. It returns false at
// the end of the page.
func (l *listLevels) load() (bool, error) {
	if l.at < l.size {
		return true, nil
	}
	if l.left == 0 {
		return false, nil
	}
	n := min(l.left, levelWindow)
	alike, err := l.definition.repeated(uint32(l.element))
	if err != nil {
		return false, err
	}
	if l.full = alike >= min(n, 64); l.full {
		n = min(n, alike)
		l.definition.repeat -= n
	} else if err := l.definition.bytes(l.defined[:n]); err != nil {
		return false, err
	}
	clear(l.continues[:])
	if _, err := l.repetition.defined(l.continues[:], 0, n); err != nil {
		return false, err
	}
	l.left, l.size, l.at = l.left-n, n, 0
	return true, nil
}

// startsRow reports whether the next level starts a row.
func (l *listLevels) startsRow() bool { return !bitutil.BitIsSet(l.continues[:], l.at) }

// nextRow returns the index of the next level in the window that starts a row, or the
// window's size if there is none.
func (l *listLevels) nextRow() int {
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

// read reads levels of the window. It stops at the end of the window, or before the level that
// starts another row once out has the wanted number of rows. It returns the number of elements, and
// the number of elements that are not null.
func (l *listLevels) read(out *listBuilder, wanted int) (elements, present int, err error) {
	if l.full {
		if !l.startsRow() && out.last < l.minElement {
			return 0, 0, errContinued
		}
		n := l.readFull(out, wanted)
		out.last = l.element
		return n, n, nil
	}
	for ; l.at < l.size; l.at++ {
		level := int(l.defined[l.at])
		switch begins := l.startsRow(); {
		case level > l.element:
			return 0, 0, errRuns
		case begins && out.rows == wanted:
			return elements, present, nil
		case begins:
			out.begin(elements, level >= l.minElement-1)
		case level < l.minElement || out.last < l.minElement:
			return 0, 0, errContinued
		}
		out.last = level
		if level >= l.minElement {
			elements++
		}
		if level == l.element {
			present++
		}
	}
	return elements, present, nil
}

// readFull is read for a window in which full is true: it only searches for the starts of rows.
func (l *listLevels) readFull(out *listBuilder, wanted int) int {
	from := l.at
	for {
		l.at = l.nextRow()
		if l.at == l.size || out.rows == wanted {
			return l.at - from
		}
		out.begin(l.at-from, true)
		l.at++
	}
}

// mark sets the validity bits of elements that are not null. The elements are those of the levels
// from index from to before the next level; the bit of the first element is at.
func (l *listLevels) mark(validity []byte, from, at int) {
	if l.full {
		bitutil.SetBitsTo(validity, int64(at), int64(l.at-from), true)
		return
	}
	for _, level := range l.defined[from:l.at] {
		if int(level) < l.minElement {
			continue
		}
		if int(level) == l.element {
			bitutil.SetBit(validity, at)
		}
		at++
	}
}
