package write

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/chunk"
)

// setting is how a top-level column is encoded.
type setting struct {
	encodings []parquet.Encoding // of each leaf
	pageBytes int64
	bloom     []bool // of each leaf
	level     int
	// tables has empty codeTables of earlier row groups, with the slots of that time: the next row
	// group probably has as many values. Until the garbage collector drops them, they are memory that
	// is not reserved, of at most 6 MiB each. Nil keeps none.
	tables *sync.Pool
}

// columnEncoder encodes a top-level column of one row group. It writes a separate file in memory,
// whose chunks an Assembler then copies to the data file.
type columnEncoder struct {
	setting setting
	column  *fieldNode
	schema  *arrow.Schema
	out     bytes.Buffer
	file    *pqarrow.FileWriter
	coded   *codeWriter // used instead of file for dictionaries of integers; otherwise nil
	raw     int64       // plain size of the rows encoded so far

	// The library's encoders of deltas fail for a page without values that follows another one. So
	// rows without values are written together with rows that have values: the last rows are kept
	// in waiting, as copies, until rows with values come. waits is true if the column can have rows
	// without values.
	waits        bool
	waiting      []arrow.Array
	waitingBytes int64
}

func newEncoder(column *fieldNode, s setting) (*columnEncoder, error) {
	e := &columnEncoder{setting: s, column: column, waits: (column.nullable || len(column.children) > 0) && slices.ContainsFunc(s.encodings, isDeltas)}
	e.schema = arrow.NewSchema([]arrow.Field{{Name: "c", Type: column.encoded, Nullable: column.nullable}}, nil)
	stored, err := pqarrow.ToParquet(e.schema, properties(nil), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, fault.New(fault.Internal, "encode column %s: %w", column.path, err)
	}
	if e.coded, err = newCodeWriter(column, s, stored); err != nil || e.coded != nil {
		return e, err
	}
	var own []parquet.WriterProperty
	for i, encoding := range s.encodings {
		path := stored.Column(i).Path()
		if encoding == parquet.Encodings.RLEDict {
			own = append(own, parquet.WithDictionaryFor(path, true))
		} else {
			own = append(own, parquet.WithEncodingFor(path, encoding))
		}
		if s.bloom[i] {
			own = append(own, parquet.WithAdaptiveBloomFilterEnabledFor(path, true), parquet.WithBloomFilterEnabledFor(path, true))
		}
	}
	own = append(own, parquet.WithDataPageSize(s.pageBytes), parquet.WithCompressionLevel(s.level),
		parquet.WithBatchSize(max(minBatchLevels, 2*s.pageBytes))) // each call of writeRows is one batch
	e.file, err = pqarrow.NewFileWriter(e.schema, &e.out, properties(own), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, fault.New(fault.Internal, "encode column %s: %w", column.path, err)
	}
	return e, nil
}

// properties returns the library's options of all columns, and some more.
func properties(more []parquet.WriterProperty) *parquet.WriterProperties {
	return parquet.NewWriterProperties(append([]parquet.WriterProperty{
		parquet.WithAllocator(batch.Cleared()), // the library leaves the widths of empty miniblocks unwritten
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithMaxRowGroupLength(math.MaxInt64),
		parquet.WithDictionaryDefault(false),
		parquet.WithDictionaryPageSizeLimit(dictionaryBytes),
		parquet.WithStoreDecimalAsInteger(true),
		parquet.WithPageIndexEnabled(true),
		parquet.WithMaxStatsSize(statisticsBytes),
		parquet.WithMaxBloomFilterBytes(bloomBytes),
	}, more...)...)
}

// write encodes rows. data is a conformed column.
func (e *columnEncoder) write(data arrow.ArrayData, from, to int) error {
	for from < to {
		next, err := e.fitting(data, from, to)
		if err != nil {
			return err
		}
		e.raw += rowBytes(data, from, next)
		if err := e.writePage(data, from, next); err != nil {
			return fault.New(fault.Internal, "encode column %s: %w", e.column.path, err)
		}
		from = next
	}
	return nil
}

// writePage encodes rows that fit in a page.
func (e *columnEncoder) writePage(data arrow.ArrayData, from, to int) error {
	column := array.MakeFromData(data)
	defer column.Release()
	rows := array.NewSlice(column, int64(from), int64(to))
	defer rows.Release()
	if !e.waits {
		return e.writeRows(rows)
	}
	if e.hasDeltas(data, from, to) {
		if err := e.writeWaiting(); err != nil {
			return err
		}
	}
	own, err := array.Concatenate([]arrow.Array{rows}, batch.Default())
	if err != nil {
		return err
	}
	e.waiting, e.waitingBytes = append(e.waiting, own), e.waitingBytes+rowBytes(data, from, to)
	return nil
}

// hasDeltas reports whether each leaf that is encoded as deltas has a value in the rows [from, to).
func (e *columnEncoder) hasDeltas(data arrow.ArrayData, from, to int) bool {
	for i, has := range hasValues(data, from, to, nil) {
		if !has && isDeltas(e.setting.encodings[i]) {
			return false
		}
	}
	return true
}

// writeWaiting encodes the rows in waiting.
func (e *columnEncoder) writeWaiting() error {
	if len(e.waiting) == 0 {
		return nil
	}
	rows, err := array.Concatenate(e.waiting, batch.Default())
	if err != nil {
		return err
	}
	defer rows.Release()
	for _, w := range e.waiting {
		w.Release()
	}
	e.waiting, e.waitingBytes = nil, 0
	return e.writeRows(rows)
}

func isDeltas(e parquet.Encoding) bool {
	return e == parquet.Encodings.DeltaBinaryPacked || e == parquet.Encodings.DeltaLengthByteArray || e == parquet.Encodings.DeltaByteArray
}

// minBatchLevels is more than the number of rows of a step. Rows that fit in a page have at most
// one level for each of their bytes, plus one for each row.
const minBatchLevels = 2 * stepRows

// fitting returns the end of the largest range of rows, starting at from, that fits in a page. The
// range has at least one row, even if that row is larger than a page.
func (e *columnEncoder) fitting(data arrow.ArrayData, from, to int) (int, error) {
	if rowBytes(data, from, to) <= e.setting.pageBytes {
		return to, nil
	}
	low, high := from+1, to // the end is in [low, high]
	for low < high {
		if mid := (low + high + 1) / 2; rowBytes(data, from, mid) <= e.setting.pageBytes {
			low = mid
		} else {
			high = mid - 1
		}
	}
	if size := rowBytes(data, from, low); size > maxRowBytes {
		return 0, fault.New(fault.Invalid, "column %s has %d bytes in one row, and a page can hold %d", e.column.path, size, int64(maxRowBytes)).
			WithRemedy("leave out the row, or store the value elsewhere")
	}
	return low, nil
}

func (e *columnEncoder) writeRows(rows arrow.Array) (err error) {
	defer recovered(&err)
	if e.coded != nil {
		return e.coded.write(rows)
	}
	batch := array.NewRecordBatch(e.schema, []arrow.Array{rows}, int64(rows.Len()))
	defer batch.Release()
	return e.file.WriteBuffered(batch)
}

// stored returns the compressed size of the finished pages.
func (e *columnEncoder) stored() int64 {
	if e.coded != nil {
		return e.coded.pages.stored
	}
	return e.file.RowGroupTotalCompressedBytes()
}

// held returns an upper bound of the memory in use: finished pages in buffers that double when they
// grow, the pages that are being filled, dictionaries and bloom filters.
func (e *columnEncoder) held() int64 {
	held := 2*e.stored() + 3*e.waitingBytes
	for i, encoding := range e.setting.encodings {
		held += encoderBytes + 4*min(e.raw, 2*e.setting.pageBytes)
		if encoding == parquet.Encodings.RLEDict {
			held += 4 * min(e.raw, dictionaryBytes)
		}
		if e.setting.bloom[i] {
			held += 3 * bloomBytes
		}
	}
	return held
}

// encoderBytes is the memory of an encoder without rows, for each leaf.
const encoderBytes = 32 << 10

// close ends the row group and returns its chunks, whose bytes are in the encoder's memory.
func (e *columnEncoder) close() ([]chunk.EncodedChunk, error) {
	if e.coded != nil {
		made, err := e.coded.close()
		return []chunk.EncodedChunk{made}, fault.Op(err, "encode column %s", e.column.path)
	}
	if err := e.closeFile(); err != nil {
		return nil, fault.New(fault.Internal, "encode column %s: %w", e.column.path, err)
	}
	meta, err := e.file.FileMetadata()
	if err != nil {
		return nil, fault.New(fault.Internal, "encode column %s: %w", e.column.path, err)
	}
	var out []chunk.EncodedChunk
	all := e.out.Bytes()
	for i, c := range meta.RowGroups[0].Columns {
		described := c.MetaData
		start := described.DataPageOffset
		if d := described.DictionaryPageOffset; d != nil {
			start = min(start, *d)
		}
		made := chunk.EncodedChunk{Of: meta, Column: i}
		checked, err := chunk.AddChecksums(all[start:start+described.TotalCompressedSize], start, section(all, c.OffsetIndexOffset, c.OffsetIndexLength))
		if err != nil {
			return nil, err
		}
		more := int64(len(checked.Pages)) - described.TotalCompressedSize
		described.DataPageOffset = checked.FirstDataPage
		described.TotalCompressedSize += more
		described.TotalUncompressedSize += more
		made.Pages = func(ctx context.Context, write func(context.Context, []byte) error) error {
			return write(ctx, checked.Pages)
		}
		made.OffsetIndex = checked.OffsetIndex
		made.ColumnIndex = section(all, c.ColumnIndexOffset, c.ColumnIndexLength)
		made.Bloom = section(all, described.BloomFilterOffset, described.BloomFilterLength)
		out = append(out, made)
	}
	return out, nil
}

func (e *columnEncoder) closeFile() (err error) {
	defer recovered(&err)
	if err := e.writeWaiting(); err != nil {
		return err
	}
	return e.file.Close()
}

// recovered is deferred. It recovers from a panic of the library and sets err.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the library's encoder failed: %v", r)
	}
}

// section returns a copy of a section of the encoder's file, or nil if the section is absent. The
// copy may outlive the encoder.
func section(all []byte, at *int64, length *int32) []byte {
	if at == nil || length == nil {
		return nil
	}
	return bytes.Clone(all[*at : *at+int64(*length)])
}
