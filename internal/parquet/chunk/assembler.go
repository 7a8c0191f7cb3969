package chunk

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/fault"
)

const magic = "PAR1"

// Destination takes the bytes of a file in order. When Write returns without an error, the caller may use p
// again. After an error, an abandoned write may still read p.
type Destination interface {
	Write(ctx context.Context, p []byte) error
}

// EncodedChunk is a column chunk of a file.
type EncodedChunk struct {
	// Of is the footer that describes the chunk, as column Column of row group Group. It is not
	// changed.
	Of            *metadata.FileMetaData
	Group, Column int
	// Pages calls write with all bytes of the pages in order, the dictionary first.
	Pages func(ctx context.Context, write func(context.Context, []byte) error) error
	// ColumnIndex, OffsetIndex and Bloom are the stored bytes of the page indexes and of the bloom
	// filter, with offsets for the chunk's old position. Nil: the chunk has none.
	ColumnIndex, OffsetIndex, Bloom []byte
}

// FooterFields are the fields of a footer that do not come from chunks.
type FooterFields struct {
	Schema    *schema.Schema
	CreatedBy string
	Metadata  metadata.KeyValueMetadata
}

// Assembler writes a file. It is not safe for concurrent use.
type Assembler struct {
	to      Destination
	at      int64
	meta    *metadata.FileMetaData
	open    bool // whether a row group was started and not ended
	filters [][]byte
	indexes []indexes // of all chunks in order
	held    int64
	splits  []int64
}

// indexes are the page indexes of a chunk.
type indexes struct{ column, offset []byte }

// New starts a file.
func New(ctx context.Context, to Destination, layout FooterFields) (*Assembler, error) {
	props := parquet.NewWriterProperties(parquet.WithCreatedBy(layout.CreatedBy), parquet.WithVersion(parquet.V2_LATEST))
	meta, err := metadata.NewFileMetadataBuilder(layout.Schema, props, layout.Metadata).Snapshot()
	if err != nil {
		return nil, fault.New(fault.Internal, "describe the columns of a Parquet file: %w", err)
	}
	a := &Assembler{to: to, meta: meta}
	return a, a.write(ctx, []byte(magic))
}

func (a *Assembler) write(ctx context.Context, p []byte) error {
	err := a.to.Write(ctx, p)
	if err == nil {
		a.at += int64(len(p))
	}
	return err
}

// Bytes returns the number of bytes written.
func (a *Assembler) Bytes() int64 { return a.at }

// Held returns the number of bytes of indexes and filters that are in memory because they are not
// written yet.
func (a *Assembler) Held() int64 { return a.held }

// Splits returns the offset of each row group in the file.
func (a *Assembler) Splits() []int64 { return a.splits }

// Append writes the pages of the next column of the open row group.
func (a *Assembler) Append(ctx context.Context, c EncodedChunk) error {
	if !a.open {
		group := clone(c.Of.RowGroups[c.Group])
		group.Columns = nil
		a.meta.RowGroups = append(a.meta.RowGroups, group)
		a.open, a.splits = true, append(a.splits, a.at)
	}
	group := a.meta.RowGroups[len(a.meta.RowGroups)-1]
	leaf := len(group.Columns)
	if leaf >= a.meta.Schema.NumColumns() {
		return fault.New(fault.Internal, "a row group has more than the %d columns of the schema", leaf)
	}
	column := clone(c.Of.RowGroups[c.Group].Columns[c.Column])
	described := clone(column.MetaData)
	if have, want := parquet.Type(described.Type), a.meta.Schema.Column(leaf).PhysicalType(); have != want {
		return fault.New(fault.Internal, "the chunk of column %s has values of type %s, the schema %s", a.meta.Schema.Column(leaf).Path(), have, want)
	}
	start := described.DataPageOffset
	if d := described.DictionaryPageOffset; d != nil && *d > 0 && *d < start {
		start = *d
	}
	moved := a.at - start
	described.DataPageOffset += moved
	if described.DictionaryPageOffset != nil {
		described.DictionaryPageOffset = new(*described.DictionaryPageOffset + moved)
	}
	described.IndexPageOffset, described.BloomFilterOffset, described.BloomFilterLength = nil, nil, nil
	described.PathInSchema = a.meta.Schema.Column(leaf).ColumnPath()
	described.EncodingStats = slices.Clone(described.EncodingStats)
	sort.Slice(described.EncodingStats, func(i, j int) bool {
		x, y := described.EncodingStats[i], described.EncodingStats[j]
		return x.PageType > y.PageType || x.PageType == y.PageType && x.Encoding < y.Encoding
	})
	column.MetaData, column.FilePath, column.FileOffset = described, nil, a.at
	column.ColumnIndexOffset, column.ColumnIndexLength, column.OffsetIndexOffset, column.OffsetIndexLength = nil, nil, nil, nil
	group.Columns = append(group.Columns, column)

	from := a.at
	if err := c.Pages(ctx, a.write); err != nil {
		return err
	}
	if a.at-from != described.TotalCompressedSize {
		return fault.New(fault.Internal, "the pages of column %s have %d bytes, its footer declares %d", a.meta.Schema.Column(leaf).Path(), a.at-from, described.TotalCompressedSize)
	}
	return a.keep(c, moved)
}

// keep keeps the indexes and the filter of a chunk in memory until they are written. moved is the
// distance by which the chunk's pages have moved.
func (a *Assembler) keep(c EncodedChunk, moved int64) error {
	x := indexes{column: c.ColumnIndex}
	if c.OffsetIndex != nil {
		var err error
		if x.offset, err = shiftOffsets(c.OffsetIndex, moved); err != nil {
			return err
		}
	}
	a.filters, a.indexes = append(a.filters, c.Bloom), append(a.indexes, x)
	a.held += int64(len(c.Bloom) + len(x.column) + len(x.offset))
	return nil
}

// EndGroup ends the open row group, which has the given number of rows.
func (a *Assembler) EndGroup(ctx context.Context, rows int64, sorting []parquet.SortingColumn) error {
	group := a.meta.RowGroups[len(a.meta.RowGroups)-1]
	if len(group.Columns) != a.meta.Schema.NumColumns() {
		return fault.New(fault.Internal, "a row group has %d of %d columns", len(group.Columns), a.meta.Schema.NumColumns())
	}
	if len(a.meta.RowGroups) > math.MaxInt16 {
		return fault.New(fault.Invalid, "the file has more than %d row groups", math.MaxInt16).WithRemedy("write larger row groups, or more files")
	}
	var stored, uncompressed int64
	for i, c := range group.Columns {
		stored += c.MetaData.TotalCompressedSize
		uncompressed += c.MetaData.TotalUncompressedSize
		if filter := a.filters[i]; filter != nil {
			c.MetaData.BloomFilterOffset, c.MetaData.BloomFilterLength = new(a.at), new(int32(len(filter)))
			if err := a.write(ctx, filter); err != nil {
				return err
			}
			a.held -= int64(len(filter))
		}
	}
	group.NumRows, group.TotalByteSize, group.TotalCompressedSize = rows, uncompressed, new(stored)
	group.FileOffset, group.Ordinal = new(a.splits[len(a.splits)-1]), new(int16(len(a.meta.RowGroups)-1))
	group.SortingColumns = nil
	for _, s := range sorting {
		group.SortingColumns = append(group.SortingColumns, new(s))
	}
	a.meta.NumRows += rows
	a.filters, a.open = nil, false
	return nil
}

// Close writes the page indexes and the footer, and returns the footer.
func (a *Assembler) Close(ctx context.Context) (*metadata.FileMetaData, error) {
	if a.open {
		return nil, fault.New(fault.Internal, "a row group of a Parquet file was not ended")
	}
	if err := a.writeIndexes(ctx); err != nil {
		return nil, err
	}
	var footer bytes.Buffer
	if _, err := a.meta.WriteTo(&footer, nil); err != nil {
		return nil, fault.New(fault.Internal, "encode the footer of a Parquet file: %w", err)
	}
	end := binary.LittleEndian.AppendUint32(footer.Bytes(), uint32(footer.Len()))
	return a.meta, a.write(ctx, append(end, magic...))
}

// writeIndexes writes all column indexes and then all offset indexes.
func (a *Assembler) writeIndexes(ctx context.Context) error {
	next := 0
	for _, group := range a.meta.RowGroups {
		for _, c := range group.Columns {
			if x := a.indexes[next].column; x != nil {
				c.ColumnIndexOffset, c.ColumnIndexLength = new(a.at), new(int32(len(x)))
				if err := a.write(ctx, x); err != nil {
					return err
				}
			}
			next++
		}
	}
	next = 0
	for _, group := range a.meta.RowGroups {
		for _, c := range group.Columns {
			if x := a.indexes[next].offset; x != nil {
				c.OffsetIndexOffset, c.OffsetIndexLength = new(a.at), new(int32(len(x)))
				if err := a.write(ctx, x); err != nil {
					return err
				}
			}
			next++
		}
	}
	return nil
}

// clone returns a shallow copy.
func clone[T any](p *T) *T {
	c := *p
	return &c
}
