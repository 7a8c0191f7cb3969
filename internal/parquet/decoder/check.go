package decoder

import (
	"errors"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/parquet/page"
)

var errValues = errors.New("the values of a page do not match its schema")

// CheckContent returns an error if the levels or values in the pages of a leaf do not match its schema.
func CheckContent(from *page.Reader, described *schema.Column) error {
	for {
		next, err := from.Next()
		if next == nil || err != nil {
			return err
		}
		if next.Dictionary {
			continue
		}
		if !levelsValid(next.Repetition, next.Count, int(described.MaxRepetitionLevel())) ||
			!levelsValid(next.Definition, next.Count, int(described.MaxDefinitionLevel())) {
			return page.ErrLevels
		}
		if described.MaxDefinitionLevel() == 0 && !valuesValid(next, described) {
			return errValues
		}
	}
}

// levelsValid reports whether there are count stored levels, none above maxLevel.
func levelsValid(stored []byte, count, maxLevel int) bool {
	if maxLevel == 0 {
		return len(stored) == 0
	}
	levels := rleDecoder{rest: stored, width: bits.Len(uint(maxLevel))}
	var window [levelWindow]byte
	for count > 0 {
		n := min(count, len(window))
		if levels.bytes(window[:n]) != nil {
			return false
		}
		for _, level := range window[:n] {
			if int(level) > maxLevel {
				return false
			}
		}
		count -= n
	}
	return levels.exhausted()
}

// valuesValid reports whether a plain or dictionary-encoded page has as many values as
// its header counts. The library checks the other encodings.
func valuesValid(p *page.Page, described *schema.Column) bool {
	switch p.Encoding {
	case parquet.Encodings.Plain:
		return plainValid(p.Values, p.Count, described)
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		return indicesValid(p.Values, p.Count)
	default:
		return true
	}
}

func indicesValid(values []byte, count int) bool {
	indices, err := indicesOf(values)
	if err != nil || len(values) == 0 && count > 0 {
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
	return indices.exhausted()
}

const (
	// packedGroup is the unit of bit-packed runs: the length of a run is a multiple of packedGroup,
	// and its last values may be padding.
	packedGroup = 8
	// duckDBRun is the unit of DuckDB's bit-packed runs.
	duckDBRun = 256
)

func plainValid(values []byte, count int, described *schema.Column) bool {
	width := described.PhysicalType().ByteSize()
	switch described.PhysicalType() {
	case parquet.Types.Boolean:
		return len(values) == (count+7)/8
	case parquet.Types.FixedLenByteArray:
		width = described.TypeLength()
	case parquet.Types.ByteArray:
		for ; count > 0; count-- {
			length, ok := byteArrayAt(values, 0)
			if !ok {
				return false
			}
			values = values[4+length:]
		}
		return len(values) == 0
	}
	return len(values) == count*width
}
