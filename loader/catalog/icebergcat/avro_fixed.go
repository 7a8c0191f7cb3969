package icebergcat

import (
	"encoding/binary"
	"errors"
)

// mostNesting bounds how deep values lie in each other. Iceberg's lie six deep.
const mostNesting = 64

// avroWalk goes over the records of a block without decoding them.
type avroWalk struct {
	data    []byte
	at      int
	left    int                // steps, so that values of no bytes end too
	lengths bool               // whether a formFixed has its length before it
	met     bool               // a formFixed
	keep    func(from, to int) // called with the bytes before each length, if not nil
	kept    int
}

// over says whether a block holds exactly so many records.
func (w *avroWalk) over(t *avroType, records int64) bool {
	const perByte = 8
	w.left = perByte*len(w.data) + perByte*zeroRecords
	for range records {
		if !w.value(t, mostNesting) {
			return false
		}
	}
	return w.at == len(w.data)
}

// value skips a value, and is false where the block ends before it or it is none.
func (w *avroWalk) value(t *avroType, nesting int) bool {
	if w.left--; w.left < 0 || nesting == 0 {
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
		return w.fixed(int64(t.size))
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

// fixed skips a value of formFixed.
func (w *avroWalk) fixed(size int64) bool {
	w.met = true
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

// items skips an array or a map: blocks of a number of items, with their length in bytes
// between where the number is negative, until a number that is 0.
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
	if n < 0 || n > int64(len(w.data)-w.at) {
		return false
	}
	w.at += int(n)
	return true
}

func (w *avroWalk) number() (int64, bool) {
	v, n := binary.Varint(w.data[w.at:])
	if n <= 0 {
		return 0, false
	}
	w.at += n
	return v, true
}

// withoutLengths returns a block of records with its values of formFixed as the schema has
// them. The Java library of Iceberg 1.8 to 1.12 writes the length of such a value before
// it, as if it were bytes (apache/iceberg#17501); other writers, and Java before, write as
// the schema says. No writer says which way it took: the block's bytes end where its
// records end in one way only. A block that fits in neither way is left to the decoder.
func (c *container) withoutLengths(block []byte, records int64) ([]byte, error) {
	declared, prefixed := avroWalk{data: block}, avroWalk{data: block, lengths: true}
	fits := declared.over(c.form.fixed, records)
	if !prefixed.over(c.form.fixed, records) || !prefixed.met {
		return block, nil
	}
	if fits {
		return nil, errors.New("a block can be read in two ways: with and without lengths before values of type fixed")
	}
	if more := int64(len(block) - cap(c.shorter)); more > 0 {
		if err := c.charge(more); err != nil {
			return nil, err
		}
		c.shorter = make([]byte, 0, len(block))
	}
	c.shorter = c.shorter[:0]
	again := avroWalk{data: block, lengths: true, keep: func(from, to int) { c.shorter = append(c.shorter, block[from:to]...) }}
	again.over(c.form.fixed, records)
	c.shorter = append(c.shorter, block[again.kept:]...)
	return c.shorter, nil
}
