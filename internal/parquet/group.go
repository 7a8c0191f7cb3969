package parquet

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/parquet/charged"
)

// rowGroup is the row group that a Reader decodes. columns is nil if none is open.
type rowGroup struct {
	*reading
	index    int           // in the file
	left     int64         // number of rows that are not decoded yet
	end      int64         // row after the last of them, counted in the file
	maxRows  int64         // maximum number of rows of a batch
	rowBytes int64         // estimated memory of a decoded row
	heap     int64         // reserved for what the library allocates by itself
	cached   cachedColumns // the cached columns, which are not decoded
	columns  []*openColumn // by index in reading.all
	library  libraryReaders
}

// enter makes the rows [from, to) of a row group the ones to decode. The columns are added later.
func (g *rowGroup) enter(index int, from, to int64) {
	g.index, g.left, g.end = index, to-from, g.file.groups[index].FirstRow+to
	g.columns = []*openColumn{}
}

// open opens the columns of the row group, whose stored bytes are loaded.
func (g *rowGroup) open(columns []column, from, to int64) error {
	g.countAsked(columns)
	g.addColumns(columns)
	if to-from < g.file.groups[g.index].Rows {
		if err := g.view(from, to); err != nil {
			return err
		}
	}
	if err := g.reservePages(); err != nil {
		return err
	}
	if err := g.openLibrary(); err != nil {
		return err
	}
	if err := g.eachColumn(func(i int) error { return g.columns[i].openDictionary() }); err != nil {
		return err
	}
	for _, c := range g.columns {
		if c.field < 0 {
			continue
		}
		if err := c.open(); err != nil {
			return c.named(err)
		}
	}
	if from == 0 {
		return nil
	}
	return g.eachColumn(func(i int) error { return g.columns[i].dropBefore(from) })
}

// addColumns sets the columns. Columns that have leaves in common share the chunks of these leaves.
func (g *rowGroup) addColumns(columns []column) {
	chunks := map[int]*openChunk{}
	for _, c := range columns {
		added := &openColumn{column: c, group: g}
		for _, leaf := range c.leaves {
			if chunks[leaf] == nil {
				chunks[leaf] = &openChunk{
					reading: g.reading, leaf: leaf, Chunk: g.file.describe(g.index, leaf), stored: g.source.loaded(g.file.chunkSpan(g.index, leaf)),
				}
			}
			added.chunks = append(added.chunks, chunks[leaf])
		}
		g.columns = append(g.columns, added)
	}
}

// countAsked passes the stored size of the chunks of the columns that are decoded to
// ReadOptions.Asked.
func (g *rowGroup) countAsked(columns []column) {
	if g.opts.Asked == nil {
		return
	}
	bytes := int64(0)
	for _, s := range g.file.spans(g.index, columns) {
		bytes += s.length
	}
	g.opts.Asked(bytes)
}

// pagesMemory is the memory that decoding the pages of a row group takes, in bytes.
type pagesMemory struct {
	scratch int64 // for pages and dictionaries
	heap    int64 // allocated by the library on the Go heap
	decoded int64 // for the decoded rows that the Reader returns
}

// reservePages walks all page headers and reserves the memory to decode the pages.
func (g *rowGroup) reservePages() error {
	g.maxRows = min(int64(g.opts.BatchRows), g.left)
	sum := pagesMemory{}
	for _, c := range g.columns {
		for _, chunk := range c.chunks {
			if err := c.measure(chunk, &sum); err != nil {
				return err
			}
		}
	}
	g.rowBytes = sum.decoded / g.left
	if err := g.scratch.Extend(sum.scratch); err != nil {
		return err
	}
	if err := g.account.Reserve(sum.heap); err != nil {
		return err
	}
	g.heap = sum.heap
	return nil
}

// openLibrary sets the library's readers for the row group. Some of its chunks may be replaced or
// viewed.
func (g *rowGroup) openLibrary() (err error) {
	var moved []*openChunk
	for _, c := range g.columns {
		if c.field < 0 || c.decodes() {
			continue
		}
		for _, chunk := range c.chunks {
			if (chunk.replaced != nil || chunk.viewed != nil) && !slices.Contains(moved, chunk) {
				moved = append(moved, chunk)
			}
		}
	}
	g.library = g.whole
	if len(moved) > 0 {
		defer recovered(&err, g.file.Location(), "a column cannot be decoded")
		g.library, err = g.readersOf(g.footerOf(moved))
	}
	return err
}

// footerOf returns the file's footer, changed for the moved chunks of the row group: these are
// replaced or viewed, and the library reads them at other offsets than those in the file.
func (g *rowGroup) footerOf(moved []*openChunk) *metadata.FileMetaData {
	out, inner := *g.file.meta, *g.file.meta.FileMetaData
	out.FileMetaData = &inner
	inner.RowGroups = slices.Clone(inner.RowGroups)
	group := *inner.RowGroups[g.index]
	inner.RowGroups[g.index] = &group
	group.Columns = slices.Clone(group.Columns)
	for _, c := range moved {
		chunk := *group.Columns[c.leaf]
		described := *chunk.MetaData
		group.Columns[c.leaf], chunk.MetaData = &chunk, &described
		chunk.OffsetIndexOffset, chunk.ColumnIndexOffset = nil, nil
		described.EncodingStats = nil
		at, dictionary, size := c.move()
		described.DataPageOffset, described.DictionaryPageOffset = at+dictionary, nil
		if dictionary > 0 {
			described.DictionaryPageOffset = &at
		}
		described.TotalCompressedSize = size
		if c.viewed != nil {
			described.NumValues = c.viewed.Values
		}
		if c.replaced != nil {
			described.Codec, described.TotalUncompressedSize = 0, size // not compressed
		}
	}
	return &out
}

// decode decodes the next rows of all columns. The caller releases the arrays even if
// there is an error.
func (g *rowGroup) decode(rows int64) ([]arrow.Array, error) {
	arrays := make([]arrow.Array, len(g.columns))
	err := g.eachColumn(func(i int) (err error) {
		arrays[i], err = g.decodeColumn(i, rows)
		return err
	})
	if err == nil {
		g.left -= rows
	}
	return arrays, err
}

// eachColumn calls a function for all columns, on idle cores too.
func (g *rowGroup) eachColumn(do func(i int) error) error {
	return g.opts.Cores.Each(len(g.columns), do)
}

// decodeColumn returns the next rows of one column, decoded or from the cached column.
func (g *rowGroup) decodeColumn(i int, rows int64) (out arrow.Array, err error) {
	defer charged.Refused(&err)
	if from := g.cached.of(i); from != nil {
		return from.Read(rows, g.batchMemory)
	}
	if g.opts.Decoding != nil {
		defer g.opts.Decoding(i)()
	}
	return g.columns[i].decode(rows)
}

// checkEnd returns an error if all rows of the row group have been decoded and a column still has
// rows left.
func (g *rowGroup) checkEnd() error {
	if len(g.columns) == 0 || g.left > 0 || g.end < g.file.groups[g.index].FirstRow+g.file.groups[g.index].Rows {
		return nil
	}
	for _, c := range g.columns {
		if err := c.checkEnd(); err != nil {
			return err
		}
	}
	return nil
}

// release frees the memory of the row group.
func (g *rowGroup) release() {
	g.close()
	g.cached.release()
	g.cached = cachedColumns{}
	g.source.leave()
}

// close frees the memory of the row group, except for memory that was read ahead or is shared.
func (g *rowGroup) close() {
	for _, c := range g.columns {
		c.close()
	}
	kept := g.memory.ReleaseAll()
	invariant.Check(kept == 0, "the decoder of %s keeps %d bytes that a batch has", g.file.Location(), kept)
	g.source.free()
	g.account.Release(g.scratch.Drain() + g.heap + g.kept)
	g.kept = 0
	*g = rowGroup{reading: g.reading, index: g.index, cached: g.cached}
}
