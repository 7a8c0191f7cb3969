package parquet

import (
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/parquet"
)

// maxMiniblock bounds the values of a miniblock, for which the library allocates memory
// on the page's word. Writers use 32 to 256.
const maxMiniblock = 64 << 10

var errDeltas = errors.New("the deltas of a page cannot be read")

// deltaDecoder decodes DELTA_BINARY_PACKED (format specification, "Delta Encoding") as
// used for lengths, which have 32 bits.
type deltaDecoder struct {
	rest         []byte // the rest of the page
	miniblocks   int    // miniblocks in a block
	perMiniblock int    // values in a miniblock
	total        int
	value        int64 // the last value decoded; initially that of the header
}

// newDeltaDecoder reads the header of at most count values.
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
	d.miniblocks, d.perMiniblock, d.total = int(blocks), int(block/blocks), int(total)
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

// lengths decodes all values. A negative one is an error.
func (d *deltaDecoder) lengths() ([]int32, error) {
	out := make([]int32, 0, d.total)
	if d.total > 0 {
		out = append(out, int32(d.value))
	}
	for len(out) < d.total {
		minDelta, n := binary.Varint(d.rest)
		if n <= 0 || len(d.rest) < n+d.miniblocks {
			return nil, errDeltas
		}
		widths := d.rest[n : n+d.miniblocks]
		d.rest = d.rest[n+d.miniblocks:]
		for _, width := range widths {
			if len(out) == d.total {
				break
			}
			bytes := d.perMiniblock / 8 * int(width)
			if width > 32 || bytes > len(d.rest) {
				return nil, errDeltas
			}
			packed := rleDecoder{bits: d.rest[:bytes], width: int(width)}
			for i := range min(d.perMiniblock, d.total-len(out)) {
				d.value += minDelta + int64(packed.word(i*int(width))&(1<<width-1)) //nolint:gosec // at most 32 bits
				out = append(out, int32(d.value))
			}
			d.rest = d.rest[bytes:]
		}
	}
	for _, length := range out {
		if length < 0 {
			return nil, errDeltas
		}
	}
	return out, nil
}

// deltaSizes bounds the sizes of DELTA_BYTE_ARRAY values. They may exceed the size of the
// pages, since each value may begin with all of the one before.
type deltaSizes struct {
	maxValue int64 // bytes of the longest value
	maxPage  int64 // bytes of all values of the largest page
}

// checkDeltas validates the parts of a leaf's pages that the library trusts.
func (r *Reader) checkDeltas(leaf int) (out deltaSizes, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	p, err := r.pages(leaf)
	if err != nil {
		return out, err
	}
	defer p.release()
	for {
		next, err := p.next()
		if next == nil || err != nil {
			return out, err
		}
		if next.dictionary {
			continue
		}
		if err := out.add(next); err != nil {
			return out, err
		}
	}
}

// add adds a data page.
func (o *deltaSizes) add(p *page) error {
	switch p.encoding {
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaLengthByteArray:
		if len(p.values) == 0 {
			return nil // all null
		}
		_, err := newDeltaDecoder(p.values, p.count)
		return err
	case parquet.Encodings.DeltaByteArray:
		if len(p.values) == 0 {
			return nil
		}
	default:
		return nil
	}
	d, err := newDeltaStrings(p.values, p.count)
	if err != nil {
		return err
	}
	var last, sum int64
	for i, n := range d.prefixes {
		if int64(n) > last {
			return errDeltas
		}
		last = int64(n) + int64(d.suffixes[i])
		o.maxValue, sum = max(o.maxValue, last), sum+last
	}
	o.maxPage = max(o.maxPage, sum)
	return nil
}

// deltaStrings are the values of a DELTA_BYTE_ARRAY page. Each is a prefix of the value
// before, followed by a suffix.
type deltaStrings struct {
	prefixes, suffixes []int32
	rest               []byte // the suffixes, concatenated
}

// newDeltaStrings decodes the lengths of at most count values.
func newDeltaStrings(values []byte, count int) (deltaStrings, error) {
	prefix, err := newDeltaDecoder(values, count)
	if err != nil {
		return deltaStrings{}, err
	}
	prefixes, err := prefix.lengths()
	if err != nil {
		return deltaStrings{}, err
	}
	suffix, err := newDeltaDecoder(prefix.rest, count)
	if err != nil {
		return deltaStrings{}, err
	}
	suffixes, err := suffix.lengths()
	if err != nil || len(prefixes) != len(suffixes) {
		return deltaStrings{}, errDeltas
	}
	return deltaStrings{prefixes: prefixes, suffixes: suffixes, rest: suffix.rest}, nil
}

// fixed reports whether all values have the given length and no byte is left over.
func (d *deltaStrings) fixed(length int) bool {
	before, sum := int32(0), 0 // no prefix is longer than the value before
	for i, prefix := range d.prefixes {
		if prefix > before || int64(prefix)+int64(d.suffixes[i]) != int64(length) {
			return false
		}
		before, sum = int32(length), sum+int(d.suffixes[i])
	}
	return sum == len(d.rest)
}
