package parquet

import (
	"context"
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/thrift"
)

const (
	// maxBloomValues is the maximum number of values looked up in a bloom filter: each value may
	// take one request.
	maxBloomValues = 16
	// maxWholeBloom is the maximum size of a bloom filter that is read in one request. A
	// larger one takes a request for its header and one for each value.
	maxWholeBloom = 64 << 10
	// maxBloomHeader bounds the size of a bloom filter's header.
	maxBloomHeader = 64
	// bloomBlock is the size of the block in which a value is looked up.
	bloomBlock = 32
)

// MayHold returns false only if the column's bloom filter says that no row of the row group has any
// of the values. The values are in the terms of the table's type: int64 in its units, string for
// bytes too, or *big.Int for the unscaled decimal. MayHold returns true if the file has no usable
// filter of the column. It reads a short filter whole; of a long one it reads the header, and one
// block for each value. MayHold trusts the filter, just as pruning trusts statistics.
func (f *File) MayHold(ctx context.Context, rowGroup, fieldID int, as arrow.DataType, values []any) (bool, error) {
	field, ok := f.Field(fieldID)
	if !ok || len(field.Leaves) != 1 || len(values) > maxBloomValues || !sameUnits(batch.StorageOf(field.Type), as) {
		return true, nil
	}
	leaf := field.Leaves[0]
	described := f.meta.RowGroups[rowGroup].Columns[leaf].MetaData
	if described.BloomFilterOffset == nil {
		return true, nil
	}
	var wanted [][]byte
	for _, v := range values {
		stored, known := plainForm(f.meta.Schema.Column(leaf), v)
		if !known {
			return true, nil
		}
		if stored != nil { // nil: the column cannot hold the value
			wanted = append(wanted, stored)
		}
	}
	b, err := f.bloom(ctx, *described.BloomFilterOffset, described.BloomFilterLength)
	if err != nil || b == nil {
		return true, err
	}
	for _, stored := range wanted {
		if may, err := b.mayHold(ctx, stored); may || err != nil {
			return true, err
		}
	}
	return false, nil
}

// sameUnits reports whether values of the table's type are stored as the same numbers or
// bytes in a column of another type.
func sameUnits(have, want arrow.DataType) bool {
	switch a := have.(type) {
	case *arrow.Int32Type:
		return want.ID() == arrow.INT32 || want.ID() == arrow.INT64 || want.ID() == arrow.DATE32
	case *arrow.Int64Type:
		b, ok := want.(*arrow.TimestampType)
		return want.ID() == arrow.INT32 || want.ID() == arrow.INT64 || ok && b.Unit == arrow.Microsecond
	case *arrow.Decimal128Type:
		b, ok := want.(*arrow.Decimal128Type)
		return ok && a.Scale == b.Scale
	case *arrow.TimestampType:
		b, ok := want.(*arrow.TimestampType)
		return ok && a.Unit == b.Unit
	case *arrow.FixedSizeBinaryType:
		return want.ID() == arrow.BINARY || arrow.TypeEqual(have, want)
	case *arrow.Date32Type, *arrow.Time64Type, *arrow.StringType, *arrow.BinaryType:
		return arrow.TypeEqual(have, want)
	default: // floats have two zeros; booleans are not worth a read
		return false
	}
}

// plainForm returns the plain encoding of a value, nil if the column cannot hold it. The
// second result is false if the encoding is not known.
func plainForm(c *schema.Column, value any) ([]byte, bool) {
	if text, ok := value.(string); ok {
		switch c.PhysicalType() {
		case parquet.Types.ByteArray:
			return []byte(text), true
		case parquet.Types.FixedLenByteArray:
			if len(text) != c.TypeLength() {
				return nil, true
			}
			return []byte(text), true
		default:
			return nil, false
		}
	}
	number, ok := value.(*big.Int)
	if v, isInt := value.(int64); isInt {
		number, ok = big.NewInt(v), true
	}
	if !ok {
		return nil, false
	}
	width := 0
	switch c.PhysicalType() {
	case parquet.Types.Int32:
		width = 4
	case parquet.Types.Int64:
		width = 8
	case parquet.Types.FixedLenByteArray: // a decimal, big-endian
		return twosComplement(number, c.TypeLength()), true
	default: // decimals of any length have several encodings
		return nil, false
	}
	stored := twosComplement(number, width)
	slices.Reverse(stored)
	return stored, true
}

// twosComplement returns a number in big-endian two's complement of the given width, or
// nil if it does not fit.
func twosComplement(v *big.Int, width int) []byte {
	limit := new(big.Int).Lsh(big.NewInt(1), uint(8*width-1))
	if v.Cmp(limit) >= 0 || v.Cmp(new(big.Int).Neg(limit)) < 0 {
		return nil
	}
	if v.Sign() < 0 {
		v = new(big.Int).Add(v, limit.Lsh(limit, 1))
	}
	return v.FillBytes(make([]byte, width))
}

// bloom is a split block bloom filter.
type bloom struct {
	file   *File
	at     int64 // offset of the first block in the file
	blocks uint64
	prefix []byte // the blocks that were read with the header
}

// bloom reads the header of a bloom filter. It returns nil if the filter cannot be used.
func (f *File) bloom(ctx context.Context, at int64, length *int32) (*bloom, error) {
	if at < int64(len(magic)) || at >= f.size {
		return nil, nil //nolint:nilnil // no filter is no error
	}
	first := int64(maxBloomHeader)
	if length != nil && int64(*length) <= maxWholeBloom {
		first = max(first, int64(*length))
	}
	head := make([]byte, min(first, f.size-at))
	if err := f.readAt(ctx, memory.NewBufferBytes(head), at); err != nil {
		return nil, fault.Op(err, "read a bloom filter of %s", f.Location())
	}
	t := thrift.Reader{Rest: head}
	size, err := readBloomHeader(&t)
	begins := at + int64(len(head)-len(t.Rest))
	switch {
	case err != nil, size < bloomBlock, size%bloomBlock != 0, size > f.size-begins:
		return nil, nil //nolint:nilnil // no filter is no error
	case length != nil && int64(*length) != begins-at+size:
		return nil, nil //nolint:nilnil // something else is stored there
	}
	return &bloom{file: f, at: begins, blocks: uint64(size / bloomBlock), prefix: t.Rest}, nil //nolint:gosec // it is positive
}

// readBloomHeader reads the header of a bloom filter. It returns the size of its blocks, or
// -1 if its algorithm, hash or compression is unknown.
func readBloomHeader(t *thrift.Reader) (int64, error) {
	size, known := int64(-1), 0
	err := t.Fields(func(id int64, kind byte) error {
		switch {
		case id == 1 && kind == thrift.I32:
			return t.Number(&size)
		case id >= 2 && id <= 4 && kind == thrift.Struct: // algorithm, hash and compression
			return t.Fields(func(choice int64, kind byte) error {
				if choice == 1 && kind == thrift.Struct { // the format has one algorithm, one hash and one compression so far
					known |= 1 << id
				}
				return t.Skip(kind, thrift.MaxDepth)
			})
		default:
			return t.Skip(kind, thrift.MaxDepth)
		}
	})
	if known != 1<<2|1<<3|1<<4 {
		return -1, err
	}
	return size, err
}

// mayHold looks a plain value up in its block.
func (b *bloom) mayHold(ctx context.Context, stored []byte) (bool, error) {
	hash := bloomHash(stored)
	at := int64((hash>>32)*b.blocks>>32) * bloomBlock //nolint:gosec // at is the offset of one of the blocks
	block, err := b.block(ctx, at)
	if err != nil {
		return true, fault.Op(err, "read a bloom filter of %s", b.file.Location())
	}
	key := uint32(hash & math.MaxUint32)
	for i, salt := range salts() {
		if binary.LittleEndian.Uint32(block[4*i:])&(1<<(key*salt>>27)) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// block returns a block of the filter, reading it if needed.
func (b *bloom) block(ctx context.Context, at int64) ([]byte, error) {
	if at+bloomBlock <= int64(len(b.prefix)) {
		return b.prefix[at : at+bloomBlock], nil
	}
	block := make([]byte, bloomBlock)
	return block, b.file.readAt(ctx, memory.NewBufferBytes(block), b.at+at)
}

// bloomHash returns the hash of a plain value, computed by the library. The format has
// one hash function.
func bloomHash(stored []byte) uint64 {
	b := metadata.NewBloomFilter(bloomBlock, bloomBlock, batch.Default())
	defer b.Release()
	return b.Hasher().Sum64(stored)
}

// salts returns the constants of the format specification, "Split Block Bloom Filter".
func salts() [8]uint32 {
	return [...]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}
}
