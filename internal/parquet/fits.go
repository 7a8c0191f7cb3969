package parquet

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

var (
	errLevels = errors.New("a page has other levels than its schema knows")
	errValues = errors.New("a page has other values than its schema knows")
)

// loose says whether the file has a column, something in it or a struct around it
// as required, and the table has not. That may be so, but it may also be damage to
// the footer, and then the library would take levels for values.
func (r *Reader) loose(c column) bool {
	if c.depth == 0 || c.shape.required {
		return c.shape.looser()
	}
	return int(r.file.meta.Schema.Column(c.leaves[0]).MaxDefinitionLevel()) <= c.depth
}

// checkLevels sees that the pages of a column have the levels and values of the
// file's schema.
func (r *Reader) checkLevels(c column) error {
	for _, leaf := range c.leaves {
		chunk := r.source.loaded(r.file.chunkSpan(r.group, leaf))
		p, err := r.file.newPages(r.group, leaf, chunk, r.scratch)
		if err != nil {
			return err
		}
		err = p.fit(r.file.meta.Schema.Column(leaf))
		p.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// fit reads all pages.
func (p *pages) fit(described *schema.Column) error {
	for {
		next, err := p.next()
		if next == nil || err != nil {
			return err
		}
		if next.dictionary {
			continue
		}
		if !levelsFit(next.repetition, next.count, int(described.MaxRepetitionLevel())) ||
			!levelsFit(next.definition, next.count, int(described.MaxDefinitionLevel())) {
			return errLevels
		}
		if described.MaxDefinitionLevel() == 0 && !valuesFit(next, described) {
			return errValues
		}
	}
}

// levelsFit says whether stored levels are so many, none above the greatest.
func levelsFit(stored []byte, count, most int) bool {
	if most == 0 {
		return len(stored) == 0
	}
	levels := hybrid{rest: stored, width: bits.Len(uint(most))}
	var window [levelWindow]byte
	for count > 0 {
		n := min(count, len(window))
		if levels.numbers(window[:n]) != nil {
			return false
		}
		for _, level := range window[:n] {
			if int(level) > most {
				return false
			}
		}
		count -= n
	}
	return levels.spent()
}

// valuesFit says whether a page has as many values as it counts, as far as it is
// plain or has indices: the library sees to the other encodings.
func valuesFit(p *page, described *schema.Column) bool {
	switch p.encoding {
	case parquet.Encodings.Plain:
		return plainFits(p.values, p.count, described)
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		return indicesFit(p.values, p.count)
	default:
		return true
	}
}

func indicesFit(values []byte, count int) bool {
	if len(values) == 0 {
		return count == 0
	}
	indices := hybrid{rest: values[1:], width: int(values[0])}
	if indices.width > 32 {
		return false
	}
	for count > 0 {
		if indices.next() != nil || indices.repeat > count {
			return false
		}
		taken := min(indices.packed, count)
		count -= indices.repeat + taken
		indices.repeat, indices.packed = 0, indices.packed-taken
	}
	return indices.spent()
}

const (
	// packedTogether is how many numbers a bit-packed run holds at least, of which the
	// last ones may be padding.
	packedTogether = 8
	// packedBlock is how many DuckDB packs at once.
	packedBlock = 256
)

func plainFits(values []byte, count int, described *schema.Column) bool {
	width := described.PhysicalType().ByteSize()
	switch described.PhysicalType() {
	case parquet.Types.Boolean:
		return len(values) == (count+7)/8
	case parquet.Types.FixedLenByteArray:
		width = described.TypeLength()
	case parquet.Types.ByteArray:
		for ; count > 0; count-- {
			if len(values) < 4 {
				return false
			}
			end := 4 + uint64(binary.LittleEndian.Uint32(values))
			if end > uint64(len(values)) {
				return false
			}
			values = values[end:]
		}
		return len(values) == 0
	}
	return len(values) == count*width
}
