package write

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/chunk"
)

// codeWriter encodes a column of integers, or of lists of integers, with a dictionary. The library
// writes plain pages, statistics and indexes, and codePages turns the plain pages into pages of
// codes.
type codeWriter struct {
	column                   *fieldNode
	library                  *file.Writer
	group                    file.SerialRowGroupWriter
	chunk                    file.ColumnChunkWriter
	sink                     pageSink
	pages                    *codePages
	definitions, repetitions []int16 // of the rows that are being written
	dense32                  []int32
	dense64                  []int64
}

// newCodeWriter returns a writer for a column, or nil if the column is one that the library
// encodes.
func newCodeWriter(column *fieldNode, s setting, stored *schema.Schema) (*codeWriter, error) {
	leaf := column
	if _, ok := column.wanted.(*arrow.ListType); ok {
		leaf = column.children[0]
	}
	if len(s.encodings) != 1 || s.encodings[0] != parquet.Encodings.RLEDict || s.bloom[0] {
		return nil, nil //nolint:nilnil // documented
	}
	codec, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		return nil, fault.New(fault.Internal, "encode column %s: %w", column.path, err)
	}
	w := &codeWriter{column: column, pages: &codePages{codec: codec, level: s.level, used: s.tables}}
	switch leaf.wanted.(type) {
	case *arrow.Int32Type:
		w.pages.table = takeTable[int32](s.tables)
	case *arrow.Int64Type:
		w.pages.table = takeTable[int64](s.tables)
	default:
		return nil, nil //nolint:nilnil // documented
	}
	w.pages.width = w.pages.table.width()
	described := stored.Column(0)
	if described.MaxDefinitionLevel() > 0 {
		w.pages.levels++
	}
	if described.MaxRepetitionLevel() > 0 {
		w.pages.levels++
	}
	w.sink.pages = w.pages
	w.library = file.NewParquetWriter(&w.sink, stored.Root(), file.WithWriterProps(properties([]parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Uncompressed), parquet.WithDataPageSize(s.pageBytes),
		parquet.WithBatchSize(max(minBatchLevels, 2*s.pageBytes)),
	})))
	if w.group, err = w.library.AppendRowGroupChecked(); err != nil {
		return nil, err
	}
	if w.chunk, err = w.group.NextColumn(); err != nil {
		return nil, err
	}
	w.sink.open = true
	return w, nil
}

// pageSink is the file to which the library writes.
type pageSink struct {
	pages *codePages
	open  bool   // whether the library is writing pages: a header, and then its data, in turn
	head  []byte // header of the page whose data is written next; nil: a header is written next
	at    int64  // number of bytes that were written
	tail  []byte // what the library wrote after the pages
	start int64  // offset of tail
}

// Write takes the header of a page, the data of a page, or the bytes before and after the pages.
func (s *pageSink) Write(p []byte) (int, error) {
	s.at += int64(len(p))
	switch {
	case !s.open:
		s.tail = append(s.tail, p...)
	case s.head == nil:
		s.head = slices.Clone(p)
	default:
		if err := s.pages.add(s.head, p); err != nil {
			return 0, err
		}
		s.head = nil
	}
	return len(p), nil
}

// endPages is called after the last page.
func (s *pageSink) endPages() { s.open, s.tail, s.start = false, nil, s.at }

// section returns a copy of a section of the library's file that follows the pages, or nil if the
// section is absent.
func (s *pageSink) section(at *int64, length *int32) []byte {
	if at == nil {
		return nil
	}
	return section(s.tail, new(*at-s.start), length)
}

// write encodes rows that fit in a page.
func (w *codeWriter) write(rows arrow.Array) error {
	leaf := rows
	w.definitions, w.repetitions = w.definitions[:0], w.repetitions[:0]
	if list, ok := rows.(*array.List); ok {
		first, last := list.ValueOffsets(0)
		if list.Len() > 0 {
			_, last = list.ValueOffsets(list.Len() - 1)
		}
		elements := array.NewSlice(list.ListValues(), first, last)
		defer elements.Release()
		leaf = elements
		w.listLevels(list, elements)
	} else if w.column.nullable {
		for i := range rows.Len() {
			w.definitions = append(w.definitions, present(rows, i))
		}
	}
	return w.writeValues(leaf)
}

// present returns 1 for a value, and 0 for a null.
func present(a arrow.Array, i int) int16 {
	if a.IsNull(i) {
		return 0
	}
	return 1
}

// listLevels sets the levels of lists. elements has the elements of all lists, one list after
// another.
func (w *codeWriter) listLevels(list *array.List, elements arrow.Array) {
	empty, nullable, at := int16(0), w.column.children[0].nullable, 0
	if w.column.nullable {
		empty = 1
	}
	full := empty + 1 // the definition level of an element that is not null
	if nullable {
		full++
	}
	hasNulls := nullable && elements.NullN() > 0
	for i := range list.Len() {
		from, to := list.ValueOffsets(i)
		if from == to {
			definition := empty
			if list.IsNull(i) {
				definition = 0
			}
			w.definitions, w.repetitions = append(w.definitions, definition), append(w.repetitions, 0)
			continue
		}
		w.definitions = appendRepeated(w.definitions, full, int(to-from))
		w.repetitions = appendRepeated(append(w.repetitions, 0), 1, int(to-from)-1)
		if hasNulls {
			for k := range int(to - from) {
				w.definitions[len(w.definitions)-int(to-from)+k] -= 1 - present(elements, at+k)
			}
		}
		at += int(to - from)
	}
}

// appendRepeated appends a level n times.
func appendRepeated(to []int16, level int16, n int) []int16 {
	at := len(to)
	to = slices.Grow(to, n)[:at+n]
	for i := range to[at:] {
		to[at+i] = level
	}
	return to
}

// writeValues writes the levels, and the values of a leaf that are not null.
func (w *codeWriter) writeValues(leaf arrow.Array) error {
	var definitions, repetitions []int16
	if w.pages.levels > 0 {
		definitions = w.definitions
	}
	if w.pages.levels > 1 {
		repetitions = w.repetitions
	}
	var err error
	switch c := w.chunk.(type) {
	case *file.Int32ColumnChunkWriter:
		_, err = c.WriteBatch(dense(leaf, &w.dense32), definitions, repetitions)
	case *file.Int64ColumnChunkWriter:
		_, err = c.WriteBatch(dense(leaf, &w.dense64), definitions, repetitions)
	default:
		err = fault.New(fault.Internal, "the library writes another type")
	}
	return err
}

// dense returns the values that are not null. It may use scratch for them.
func dense[T int32 | int64](a arrow.Array, scratch *[]T) []T {
	values := valuesOf[T](a)
	if a.NullN() == 0 {
		return values
	}
	out := (*scratch)[:0]
	for i, v := range values {
		if a.IsValid(i) {
			out = append(out, v)
		}
	}
	*scratch = out
	return out
}

// close ends the row group and returns its chunk.
func (w *codeWriter) close() (made chunk.EncodedChunk, err error) {
	defer recovered(&err)
	if err := w.closeLibrary(); err != nil {
		return made, err
	}
	meta, err := w.library.FileMetadata()
	if err != nil {
		return made, err
	}
	c := meta.RowGroups[0].Columns[0]
	dictionary := w.pages.dictionary()
	w.pages.freeTable()
	checked, err := chunk.ReplacePages(dictionary, w.pages.pages, firstPage, w.sink.section(c.OffsetIndexOffset, c.OffsetIndexLength))
	if err != nil {
		return made, err
	}
	described := c.MetaData
	described.Codec, described.DataPageOffset = zstdCodec, checked.FirstDataPage
	described.TotalCompressedSize = int64(len(checked.Pages))
	described.TotalUncompressedSize = w.pages.plain + described.TotalCompressedSize - w.pages.stored - int64(len(dictionary))
	described.Encodings = described.Encodings[:0]
	plain := *described.EncodingStats[0] // the statistics of plain pages, which are all that the library wrote
	described.EncodingStats = described.EncodingStats[:0]
	if w.pages.coded > 0 {
		described.DictionaryPageOffset = new(int64(firstPage))
		described.Encodings = append(described.Encodings, encodingCodes)
		page, codes := plain, plain
		page.PageType, page.Count = pageDictionary, 1
		codes.Encoding, codes.Count = encodingCodes, int32(w.pages.coded)
		described.EncodingStats = append(described.EncodingStats, &page, &codes)
	}
	if rest := len(w.pages.pages) - w.pages.coded; rest > 0 {
		plain.Count = int32(rest)
		described.EncodingStats = append(described.EncodingStats, &plain)
	}
	described.Encodings = append(described.Encodings, encodingPlain, encodingLevels)
	return chunk.EncodedChunk{
		Of: meta,
		Pages: func(ctx context.Context, write func(context.Context, []byte) error) error {
			return write(ctx, checked.Pages)
		},
		OffsetIndex: checked.OffsetIndex,
		ColumnIndex: w.sink.section(c.ColumnIndexOffset, c.ColumnIndexLength),
	}, nil
}

// Parquet's numbers of the codec and of the encoding of levels.
const (
	zstdCodec      = 6
	encodingLevels = 3
)

// firstPage is the offset of the first page, as in a file. It is not 0, because an offset of 0
// would mean that there is no dictionary.
const firstPage = 4

// closeLibrary ends the last page and the library's file.
func (w *codeWriter) closeLibrary() error {
	flusher, ok := w.chunk.(interface{ FlushBufferedDataPages() error })
	if !ok {
		return fault.New(fault.Internal, "the library's writer cannot end a page")
	}
	if err := flusher.FlushBufferedDataPages(); err != nil {
		return err
	}
	w.sink.endPages()
	if err := w.chunk.Close(); err != nil {
		return err
	}
	if err := w.group.Close(); err != nil {
		return err
	}
	return w.library.Close()
}
