package parquet

import (
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/parquet"
)

// mostTogether bounds the values that the library unpacks at once, of which it makes
// room for as many as a page says: writers have 32 to 256 of them.
const mostTogether = 64 << 10

var errDeltas = errors.New("the deltas of a page cannot be read")

// deltas reads numbers of the encoding DELTA_BINARY_PACKED (format specification,
// "Delta Encoding"), as far as it is used for lengths: of 32 bits.
type deltas struct {
	rest     []byte // of the page
	blocks   int    // numbers that are unpacked at once, in each block
	together int    // numbers that are unpacked at once
	total    int
	value    int64 // the first number
}

// newDeltas reads the header of at most count numbers.
func newDeltas(values []byte, count int) (deltas, error) {
	d := deltas{rest: values}
	block, ok := d.number(1 << 32)
	blocks, ok1 := d.number(1 << 32)
	total, ok2 := d.number(uint64(count))
	first, n := binary.Varint(d.rest)
	if !ok || !ok1 || !ok2 || n <= 0 || block == 0 || blocks == 0 || block%128 != 0 || block%blocks != 0 || block/blocks%32 != 0 || block/blocks > mostTogether {
		return d, errDeltas
	}
	d.rest, d.value = d.rest[n:], first
	d.blocks, d.together, d.total = int(blocks), int(block/blocks), int(total)
	return d, nil
}

func (d *deltas) number(most uint64) (uint64, bool) {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > most {
		return 0, false
	}
	d.rest = d.rest[n:]
	return v, true
}

// lengths reads all numbers, none of which is negative.
func (d *deltas) lengths() ([]int32, error) {
	out := make([]int32, 0, d.total)
	if d.total > 0 {
		out = append(out, int32(d.value))
	}
	for len(out) < d.total {
		least, n := binary.Varint(d.rest)
		if n <= 0 || len(d.rest) < n+d.blocks {
			return nil, errDeltas
		}
		widths := d.rest[n : n+d.blocks]
		d.rest = d.rest[n+d.blocks:]
		for _, width := range widths {
			if len(out) == d.total {
				break
			}
			bytes := d.together / 8 * int(width)
			if width > 32 || bytes > len(d.rest) {
				return nil, errDeltas
			}
			packed := hybrid{bits: d.rest[:bytes], width: int(width)}
			for i := range min(d.together, d.total-len(out)) {
				d.value += least + int64(packed.word(i*int(width))&(1<<width-1)) //nolint:gosec // at most 32 bits
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

// reach is how far the values of delta encoded pages of bytes reach beyond the pages:
// each may begin with all of the one before.
type reach struct {
	longest int64 // value
	page    int64 // bytes of all values of a page
}

// checkDeltas follows the pages of a leaf as far as the library believes what they
// say of themselves.
func (r *Reader) checkDeltas(leaf int) (out reach, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	p, err := r.file.newPages(r.group, leaf, r.source.loaded(r.file.chunkSpan(r.group, leaf)), r.scratch)
	if err != nil {
		return out, err
	}
	defer p.close()
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

// add looks at a page of data.
func (o *reach) add(p *page) error {
	switch p.encoding {
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaLengthByteArray:
		if len(p.values) == 0 {
			return nil // nulls alone
		}
		_, err := newDeltas(p.values, p.count)
		return err
	case parquet.Encodings.DeltaByteArray:
		if len(p.values) == 0 {
			return nil
		}
	default:
		return nil
	}
	d, err := newTextDeltas(p.values, p.count)
	if err != nil {
		return err
	}
	var last, sum int64
	for i, n := range d.prefixes {
		if int64(n) > last {
			return errDeltas
		}
		last = int64(n) + int64(d.suffixes[i])
		o.longest, sum = max(o.longest, last), sum+last
	}
	o.page = max(o.page, sum)
	return nil
}

// textDeltas are values of the encoding DELTA_BYTE_ARRAY: each begins with as many
// bytes of the one before as its prefix says, and goes on with its suffix.
type textDeltas struct {
	prefixes, suffixes []int32
	rest               []byte // the bytes of the suffixes
}

// newTextDeltas reads the lengths of at most count values.
func newTextDeltas(values []byte, count int) (textDeltas, error) {
	prefix, err := newDeltas(values, count)
	if err != nil {
		return textDeltas{}, err
	}
	prefixes, err := prefix.lengths()
	if err != nil {
		return textDeltas{}, err
	}
	suffix, err := newDeltas(prefix.rest, count)
	if err != nil {
		return textDeltas{}, err
	}
	suffixes, err := suffix.lengths()
	if err != nil || len(prefixes) != len(suffixes) {
		return textDeltas{}, errDeltas
	}
	return textDeltas{prefixes: prefixes, suffixes: suffixes, rest: suffix.rest}, nil
}

// fixed says whether all values are of one length, and no byte is left over.
func (d *textDeltas) fixed(length int) bool {
	before, sum := int32(0), 0 // no prefix reaches beyond the value before
	for i, prefix := range d.prefixes {
		if prefix > before || int64(prefix)+int64(d.suffixes[i]) != int64(length) {
			return false
		}
		before, sum = int32(length), sum+int(d.suffixes[i])
	}
	return sum == len(d.rest)
}
