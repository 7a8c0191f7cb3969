package decoder

import (
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/parquet/page"
)

// maxMiniblock bounds the number of values of a miniblock. The library allocates memory for as many
// values as the page declares. Writers use 32 to 256.
const maxMiniblock = 64 << 10

var errDeltas = errors.New("the deltas of a page cannot be read")

// deltaDecoder decodes 32-bit numbers in the encoding DELTA_BINARY_PACKED (format specification,
// "Delta Encoding"). The numbers are lengths, or the values of a column. Sums wrap around, so that
// deltas may have more than 32 bits, as DuckDB writes them.
type deltaDecoder struct {
	values       bool   // whether the numbers are the values of a column, which may be negative; lengths may not
	rest         []byte // the rest of the page, from the next miniblock on
	miniblocks   int    // miniblocks in a block
	perMiniblock int    // values in a miniblock
	left         int    // number of values that have not been read
	begun        bool   // whether the first value was read
	value        int64  // the last value read; initially the first one

	minDelta  int64      // minimum delta of the open block
	widths    []byte     // bit widths of the block's miniblocks that were not opened yet
	miniblock rleDecoder // the open miniblock, as a bit-packed run
}

// newDeltaDecoder reads the header of delta-encoded numbers, and fails if there are more than count
// numbers.
func newDeltaDecoder(values []byte, count int) (deltaDecoder, error) {
	d := deltaDecoder{rest: values}
	block, ok := d.number(1 << 32)
	blocks, ok1 := d.number(1 << 32)
	total, ok2 := d.number(uint64(count))
	first, n := binary.Varint(d.rest)
	if !ok || !ok1 || !ok2 || n <= 0 || block == 0 || blocks == 0 || block%128 != 0 || block%blocks != 0 || block/blocks%32 != 0 || block/blocks > maxMiniblock {
		return d, errDeltas
	}
	d.rest, d.value = d.rest[n:], first
	d.miniblocks, d.perMiniblock, d.left = int(blocks), int(block/blocks), int(total)
	return d, nil
}

func (d *deltaDecoder) number(limit uint64) (uint64, bool) {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > limit {
		return 0, false
	}
	d.rest = d.rest[n:]
	return v, true
}

// read decodes the next len(out) values into out. A negative length is an error.
func (d *deltaDecoder) read(out []int32) error {
	if len(out) > d.left {
		return errValuesMissing
	}
	d.left -= len(out)
	if !d.begun && len(out) > 0 {
		d.begun, out[0] = true, int32(d.value) //nolint:gosec // it wraps
		if out[0] < 0 && !d.values {
			return errDeltas
		}
		out = out[1:]
	}
	for len(out) > 0 {
		if d.miniblock.packed == 0 {
			if err := d.nextMiniblock(); err != nil {
				return err
			}
		}
		n := min(len(out), d.miniblock.packed)
		if !d.unpack(out[:n]) {
			return errDeltas
		}
		out = out[n:]
	}
	return nil
}

// unpack decodes values of the open miniblock. It returns false if a length is negative. If a delta
// has more than 57 bits, the method word returns its lower bits, which suffice for the lower 32
// bits of the sum.
func (d *deltaDecoder) unpack(out []int32) bool {
	width, at, value, signs := d.miniblock.width, d.miniblock.at, d.value, int32(0)
	mask := uint64(1)<<width - 1
	for i := range out {
		value += d.minDelta + int64(d.miniblock.word(at)&mask) //nolint:gosec // it wraps
		out[i] = int32(value)                                  //nolint:gosec // it wraps
		signs |= out[i]
		at += width
	}
	d.miniblock.at, d.miniblock.packed, d.value = at, d.miniblock.packed-len(out), value
	return signs >= 0 || d.values
}

// nextMiniblock opens the next miniblock.
func (d *deltaDecoder) nextMiniblock() error {
	if len(d.widths) == 0 {
		minDelta, n := binary.Varint(d.rest)
		if n <= 0 || len(d.rest) < n+d.miniblocks {
			return errDeltas
		}
		d.minDelta, d.widths, d.rest = minDelta, d.rest[n:n+d.miniblocks], d.rest[n+d.miniblocks:]
	}
	width := int(d.widths[0])
	bytes, limit := d.perMiniblock/8*width, 32
	if d.values {
		limit = 64
	}
	if width > limit || bytes > len(d.rest) {
		return errDeltas
	}
	d.miniblock = rleDecoder{bits: beyond(d.rest, bytes), width: width, packed: d.perMiniblock}
	d.widths, d.rest = d.widths[1:], d.rest[bytes:]
	return nil
}

// after returns the bytes after the last value. The decoder must not have read any value.
func (d deltaDecoder) after() ([]byte, error) {
	for left := d.left - 1; left > 0; left -= d.perMiniblock {
		if err := d.nextMiniblock(); err != nil {
			return nil, err
		}
	}
	return d.rest, nil
}

// DeltaSizes bounds the sizes of DELTA_BYTE_ARRAY values. The sizes may exceed those of the pages,
// since each value may begin with the whole value before it.
type DeltaSizes struct {
	MaxValue int64 // bytes of the longest value
	MaxPage  int64 // total size of the values of a page, in the page where that is largest
}

// MeasureDeltas validates the parts of delta-encoded pages that the library trusts, and returns
// bounds of the sizes of their values.
func MeasureDeltas(from *page.Reader) (out DeltaSizes, err error) {
	for {
		next, err := from.Next()
		if next == nil || err != nil {
			return out, err
		}
		if next.Dictionary {
			continue
		}
		if err := out.add(next); err != nil {
			return out, err
		}
	}
}

// add adds a data page.
func (o *DeltaSizes) add(p *page.Page) error {
	switch p.Encoding {
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaLengthByteArray:
		if len(p.Values) == 0 {
			return nil // all null
		}
		_, err := newDeltaDecoder(p.Values, p.Count)
		return err
	case parquet.Encodings.DeltaByteArray:
		return o.addPrefixed(p)
	default:
		return nil
	}
}

// addPrefixed adds a page of DELTA_BYTE_ARRAY.
func (o *DeltaSizes) addPrefixed(p *page.Page) error {
	d, _, err := newDeltaValues(p)
	if err != nil {
		return err
	}
	var prefixes, suffixes [valueWindow]int32
	var last, sum int64
	for d.suffixes.left > 0 {
		n := min(d.suffixes.left, valueWindow)
		if err := d.read(prefixes[:n], suffixes[:n]); err != nil {
			return err
		}
		for i, prefix := range prefixes[:n] {
			if int64(prefix) > last {
				return errDeltas
			}
			last = int64(prefix) + int64(suffixes[i])
			o.MaxValue, sum = max(o.MaxValue, last), sum+last
		}
	}
	o.MaxPage = max(o.MaxPage, sum)
	return nil
}
