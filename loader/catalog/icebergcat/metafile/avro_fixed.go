package metafile

import (
	"encoding/binary"
	"errors"
)

// maxNesting is the maximum depth of nested values. Iceberg uses six levels.
const maxNesting = 64

// avroWalk skips over the records of a block without decoding them.
type avroWalk struct {
	block   []byte
	at      int
	steps   int                // remaining steps, which limit the number of values of zero bytes
	lengths bool               // whether each formFixed is preceded by its length
	fixed   bool               // whether there was a formFixed
	keep    func(from, to int) // if not nil, called with the range of bytes before each length
	kept    int
}

// over reports whether a block consists of exactly the given number of records of type t.
func (w *avroWalk) over(t *avroType, records int64) bool {
	const perByte = 8
	w.steps = perByte*len(w.block) + perByte*zeroRecords
	for range records {
		if !w.value(t, maxNesting) {
			return false
		}
	}
	return w.at == len(w.block)
}

// value skips a value. It returns false if the block ends inside the value or if the value is
// malformed.
func (w *avroWalk) value(t *avroType, nesting int) bool {
	if w.steps--; w.steps < 0 || nesting == 0 {
		return false
	}
	switch t.form {
	case formNothing:
		return true
	case formByte:
		return w.skip(1)
	case formNumber:
		_, ok := w.number()
		return ok
	case formFour:
		return w.skip(4)
	case formEight:
		return w.skip(8)
	case formSized:
		return w.text()
	case formExact:
		return w.skip(int64(t.size))
	case formFixed:
		return w.skipFixed(int64(t.size))
	case formRecord:
		for _, field := range t.inner {
			if !w.value(field, nesting-1) {
				return false
			}
		}
		return true
	case formUnion:
		branch, ok := w.number()
		return ok && branch >= 0 && branch < int64(len(t.inner)) && w.value(t.inner[branch], nesting-1)
	case formArray, formMap:
		return w.items(t, nesting-1)
	default:
		return false
	}
}

// skipFixed skips a value of formFixed.
func (w *avroWalk) skipFixed(size int64) bool {
	w.fixed = true
	if w.lengths {
		start := w.at
		if n, ok := w.number(); !ok || n != size {
			return false
		}
		if w.keep != nil {
			w.keep(w.kept, start)
			w.kept = w.at
		}
	}
	return w.skip(size)
}

// items skips an array or a map. It is a sequence of blocks, each of which begins with its number
// of items; the number 0 ends the sequence. If the number is negative, the length of the block in
// bytes follows, and then as many items as its absolute value says.
func (w *avroWalk) items(t *avroType, nesting int) bool {
	for {
		n, ok := w.number()
		if !ok || n == 0 {
			return ok
		}
		if n < 0 {
			if _, ok := w.number(); !ok || -n < 0 {
				return false
			}
			n = -n
		}
		for ; n > 0; n-- {
			if t.form == formMap && !w.text() || !w.value(t.inner[0], nesting) {
				return false
			}
		}
	}
}

// text skips a string.
func (w *avroWalk) text() bool {
	n, ok := w.number()
	return ok && w.skip(n)
}

func (w *avroWalk) skip(n int64) bool {
	if n < 0 || n > int64(len(w.block)-w.at) {
		return false
	}
	w.at += int(n)
	return true
}

func (w *avroWalk) number() (int64, bool) {
	v, n := binary.Varint(w.block[w.at:])
	if n <= 0 {
		return 0, false
	}
	w.at += n
	return v, true
}

// withoutLengths returns a block of records in which all values of formFixed are written as the
// schema says. Versions 1.8 to 1.12 of Iceberg's Java library write the length of each such value
// before it, like for bytes (apache/iceberg#17501); other writers and older versions do not. Files
// do not say which way they were written, but only one way makes the records fill the block
// exactly. If neither way does, withoutLengths leaves the block as it is, and the decoder reports
// the error.
func (c *Container) withoutLengths(block []byte, records int64) ([]byte, error) {
	declared, prefixed := avroWalk{block: block}, avroWalk{block: block, lengths: true}
	fits := declared.over(c.form.fixed, records)
	if !prefixed.over(c.form.fixed, records) || !prefixed.fixed {
		return block, nil
	}
	if fits {
		return nil, errors.New("a block can be read in two ways: with and without lengths before values of type fixed")
	}
	if more := int64(len(block) - cap(c.shorter)); more > 0 {
		if err := c.Charge(more); err != nil {
			return nil, err
		}
		c.shorter = make([]byte, 0, len(block))
	}
	c.shorter = c.shorter[:0]
	again := avroWalk{block: block, lengths: true, keep: func(from, to int) { c.shorter = append(c.shorter, block[from:to]...) }}
	again.over(c.form.fixed, records)
	c.shorter = append(c.shorter, block[again.kept:]...)
	return c.shorter, nil
}
