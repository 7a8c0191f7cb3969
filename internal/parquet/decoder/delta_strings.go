package decoder

import (
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/parquet/page"
)

// deltaValues are the lengths of the values of an open page of DELTA_LENGTH_BYTE_ARRAY or
// DELTA_BYTE_ARRAY. In DELTA_BYTE_ARRAY, each value consists of a prefix of the previous value and
// a suffix; the suffixes of all values follow the lengths.
type deltaValues struct {
	prefixed bool // DELTA_BYTE_ARRAY
	prefixes deltaDecoder
	suffixes deltaDecoder
	before   []byte // the previous value; empty at the start of a page
}

// exhausted reports whether the lengths of all values have been read.
func (d *deltaValues) exhausted() bool { return d == nil || d.suffixes.left == 0 }

// newDeltaValues returns the lengths of a page's values, and the bytes after the lengths. A page
// without values may be empty, or have arbitrary bytes behind the header of the first lengths, as
// arrow-go writes them.
func newDeltaValues(p *page.Page) (*deltaValues, []byte, error) {
	d := &deltaValues{prefixed: p.Encoding == parquet.Encodings.DeltaByteArray}
	if len(p.Values) == 0 {
		return d, nil, nil
	}
	first, rest, err := lengthsAt(p.Values, p.Count)
	switch {
	case err != nil:
		return nil, nil, err
	case first.left == 0:
		return d, nil, nil
	case !d.prefixed:
		d.suffixes = first
		return d, rest, nil
	}
	d.prefixes = first
	if d.suffixes, rest, err = lengthsAt(rest, p.Count); err != nil {
		return nil, nil, err
	}
	if d.prefixes.left != d.suffixes.left {
		return nil, nil, errDeltas
	}
	return d, rest, nil
}

// openDeltas starts decoding a page of deltas.
func (l *valueDecoder) openDeltas(p *page.Page) error {
	if l.width > 0 && (p.Encoding != parquet.Encodings.DeltaByteArray || l.form != fixedBytes && l.form != fixedDecimal) {
		return page.Unlisted(p.Encoding)
	}
	if l.last == nil && l.longest > 0 {
		l.last = l.pages.Scratch().Allocate(l.longest)
	}
	var err error
	l.deltas, l.values, err = newDeltaValues(p)
	return err
}

// lengthsAt returns a decoder of the lengths at the front of values, and the bytes after these
// lengths. There may be at most count lengths.
func lengthsAt(values []byte, count int) (deltaDecoder, []byte, error) {
	d, err := newDeltaDecoder(values, count)
	if err != nil {
		return d, nil, err
	}
	rest, err := d.after()
	return d, rest, err
}

// takeDeltas is take for delta-encoded, fixed-length bytes. If out is nil, it skips the values.
func (l *valueDecoder) takeDeltas(out []byte, n int) error {
	var prefixes, suffixes [valueWindow]int32
	size := l.size()
	for n > 0 {
		some := min(n, valueWindow)
		if err := l.deltas.read(prefixes[:some], suffixes[:some]); err != nil {
			return err
		}
		for i, prefix := range prefixes[:some] {
			if int(prefix)+int(suffixes[i]) != l.width {
				return errDeltas
			}
			value, err := l.assemble(int(prefix), int(suffixes[i]))
			if err != nil {
				return err
			}
			if out != nil {
				l.decodeFixed(out[:size], value)
				out = out[size:]
			}
		}
		n -= some
	}
	return nil
}

// read reads the lengths of the next values.
func (d *deltaValues) read(prefixes, suffixes []int32) error {
	if err := d.prefixes.read(prefixes); err != nil {
		return err
	}
	return d.suffixes.read(suffixes)
}

// assemble returns the next value of DELTA_BYTE_ARRAY, which is valid until the next call.
func (l *valueDecoder) assemble(prefix, suffix int) ([]byte, error) {
	if prefix > len(l.deltas.before) || suffix > len(l.values) || prefix+suffix > len(l.last) {
		return nil, errDeltas
	}
	value := l.last[:prefix+suffix]
	copy(value[prefix:], l.values[:suffix])
	l.deltas.before, l.values = value, l.values[suffix:]
	return value, nil
}

// takeDeltas appends the next n values of a page of deltas.
func (c *Text) takeDeltas(out *byteArrayBuilder, n int) error {
	ends := out.ends(n)
	if err := c.deltas.suffixes.read(ends); err != nil { // the code below replaces the lengths in ends by end offsets
		return err
	}
	bytes := 0
	for _, suffix := range ends {
		bytes += int(suffix)
	}
	if bytes > len(c.values) {
		return errValuesMissing
	}
	if c.deltas.prefixed {
		return c.takePrefixed(out, ends, bytes)
	}
	if err := out.reserve(bytes); err != nil {
		return err
	}
	end := int32(out.bytes) //nolint:gosec // reserve limits it
	for i, length := range ends {
		end += length
		ends[i] = end
	}
	out.add(c.values[:bytes])
	c.values = c.values[bytes:]
	return nil
}

// takePrefixed appends values of DELTA_BYTE_ARRAY. ends has the lengths of their suffixes, and
// bytes is the total length of the suffixes.
func (c *Text) takePrefixed(out *byteArrayBuilder, ends []int32, bytes int) error {
	var window [valueWindow]int32
	ahead := c.deltas.prefixes
	for left := len(ends); left > 0; left -= valueWindow {
		prefixes := window[:min(left, valueWindow)]
		if err := ahead.read(prefixes); err != nil {
			return err
		}
		for _, prefix := range prefixes {
			bytes += int(prefix)
		}
	}
	if err := out.reserve(bytes); err != nil {
		return err
	}
	before := c.deltas.before
	for len(ends) > 0 {
		prefixes := window[:min(len(ends), valueWindow)]
		if err := c.deltas.prefixes.read(prefixes); err != nil {
			return err
		}
		for i, prefix := range prefixes {
			start, suffix := out.bytes, ends[i]
			if int(prefix) > len(before) {
				return errDeltas
			}
			out.add(before[:prefix])
			ends[i] = out.add(c.values[:suffix])
			before, c.values = out.values.Bytes()[start:out.bytes], c.values[suffix:]
		}
		ends = ends[len(prefixes):]
	}
	return c.keepLast(before)
}

// keepLast copies the last value, whose prefix the next value may need. The batch that has the last
// value may be released before that.
func (c *Text) keepLast(before []byte) error {
	if len(before) > len(c.last) {
		return errDeltas
	}
	c.deltas.before = c.last[:copy(c.last, before)]
	return nil
}

// passDeltas skips the next n values of a page of deltas.
func (c *Text) passDeltas(n int) error {
	var prefixes, suffixes [valueWindow]int32
	for n > 0 {
		some := min(n, valueWindow)
		if c.deltas.prefixed {
			if err := c.deltas.prefixes.read(prefixes[:some]); err != nil {
				return err
			}
		}
		if err := c.deltas.suffixes.read(suffixes[:some]); err != nil {
			return err
		}
		for i, suffix := range suffixes[:some] {
			if c.deltas.prefixed {
				if _, err := c.assemble(int(prefixes[i]), int(suffix)); err != nil {
					return err
				}
				continue
			}
			if int(suffix) > len(c.values) {
				return errValuesMissing
			}
			c.values = c.values[suffix:]
		}
		n -= some
	}
	return nil
}
