package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/convert"
	"github.com/penstock/penstock/internal/parquet/decoder"
	"github.com/penstock/penstock/internal/parquet/page"
)

// openColumn is a column of the open row group. It has at most one decoder: none if the file lacks
// the column, or it is cached.
type openColumn struct {
	column
	group     *rowGroup
	chunks    []*openChunk          // of leaves
	own       decoder.Column        // of this package
	ofLibrary *pqarrow.ColumnReader // of the library
}

// named adds the column's name to an error.
func (c *openColumn) named(err error) error {
	return fmt.Errorf("column %s: %w", c.conversion.Path, err)
}

// measure reads the page headers of a chunk and adds the memory that decoding it takes to sum. It
// replaces the chunk if the library cannot decode it.
func (c *openColumn) measure(chunk *openChunk, sum *pagesMemory) error {
	g, own := c.group, c.decodes()
	found, err := chunk.check(!own && chunk.viewed == nil)
	if err != nil {
		return c.named(err)
	}
	if found.LacksChecksum {
		if err := c.withoutChecksum(); err != nil {
			return err
		}
	}
	stored, rows := int64(len(chunk.stored)), g.file.groups[g.index].Rows
	if v := chunk.viewed; v != nil {
		stored, rows = int64(len(v.Dictionary)+len(v.Body)), v.Rows
		if found, err = v.Stats(chunk.Column, !own); err != nil {
			return c.named(err)
		}
	}
	if !own && decoder.MustReplace(&found, chunk.Column) {
		if found, err = chunk.replace(&found); err != nil {
			return c.named(err)
		}
		stored = int64(len(chunk.replaced.content))
	}
	found.Rows = rows
	chunk.stats = found
	sum.decoded += found.DecodedBytes(rows, chunk.Column) * g.left / rows
	if own {
		sum.scratch += found.DecoderMemory(chunk.Codec, chunk.Column)
		if chunk.sharesDictionary() {
			sum.scratch -= found.Dictionary.Bytes
		}
		return nil
	}
	if g.streams {
		stored = min(stored, streamBuffer)
	}
	more, made := found.LibraryMemory(stored, g.maxRows, chunk.Column)
	sum.scratch, sum.heap = sum.scratch+more, sum.heap+made
	return nil
}

// decodes reports whether this package decodes the column.
func (c *openColumn) decodes() bool { return c.newDecoder(nil) != nil }

// newDecoder returns the decoder of package decoder for a top-level column and its pages, or nil if
// that package cannot decode the column.
func (c *openColumn) newDecoder(from *page.Reader) decoder.Column {
	g := c.group
	if g.file.hasLongChunks() {
		return nil
	}
	field := g.file.fields[c.field]
	if len(field.Leaves) != 1 {
		return nil
	}
	of, rows := c.chunks[0].Chunk, g.file.groups[g.index].Rows
	if v := c.chunks[0].viewed; v != nil {
		viewed := *of
		viewed.Values = v.Values
		of, rows = &viewed, v.Rows
	}
	return decoder.New(of, field.arrow, rows, from)
}

// open opens a column after the memory of its pages was reserved. It lowers the number of rows of a
// batch if the column's values require that.
func (c *openColumn) open() (err error) {
	g := c.group
	defer recovered(&err, g.file.Location(), "a column cannot be decoded")
	if c.own, err = c.openDecoder(); err != nil {
		return err
	}
	text, _ := c.own.(*decoder.Text)
	if c.own != nil && text == nil {
		g.limitFixed(c.chunks[0])
		return nil
	}
	if c.needsLevelCheck() {
		for _, chunk := range c.chunks {
			if err := chunk.checkLevels(); err != nil {
				return err
			}
		}
	}
	if text != nil {
		if c.mayCode() { // codes have a fixed width
			return text.Code(func(size int) (*memory.Buffer, error) { return g.account.NewDetached(g.opts.Memory, size) })
		}
		return g.limitText(text, c.chunks[0])
	}
	leaves := make(map[int]bool, len(c.chunks))
	for _, chunk := range c.chunks {
		leaves[chunk.leaf] = true
		if err := g.limitBatch(chunk); err != nil {
			return err
		}
	}
	library := g.library.cleared
	if c.conversion.Flat {
		library = g.library.plain
	}
	c.ofLibrary, err = library.GetFieldReader(g.ctx, c.field, leaves, []int{g.index})
	return err
}

// openDecoder opens a top-level column if this package decodes it, and otherwise returns
// nil. Page checksums are verified as pages are read.
func (c *openColumn) openDecoder() (decoder.Column, error) {
	if !c.decodes() {
		return nil, nil //nolint:nilnil // no decoder is not an error
	}
	from, err := c.chunks[0].pages(c.group.scratch)
	if err != nil {
		return nil, err
	}
	shared, err := c.chunks[0].dictionary()
	if err != nil {
		return nil, err
	}
	from.SetDictionary(shared)
	return c.newDecoder(from), nil
}

// openDictionary decompresses the dictionary of a column if it is shared and was not decompressed
// yet.
func (c *openColumn) openDictionary() (err error) {
	defer recovered(&err, c.group.file.Location(), "a dictionary cannot be read")
	if c.field < 0 || !c.decodes() {
		return nil
	}
	if _, err := c.chunks[0].dictionary(); err != nil {
		return c.named(err)
	}
	return nil
}

// needsLevelCheck reports whether the column, something in it, or a struct around it is required in
// the file but not in the table. That is legal, but it may also be the result of a damaged footer,
// and then the library would read levels as values.
func (c *openColumn) needsLevelCheck() bool {
	if c.depth == 0 || c.conversion.Required {
		return c.conversion.AnyLoose()
	}
	return int(c.chunks[0].Column.MaxDefinitionLevel()) <= c.depth
}

// mayCode reports whether the column is decoded as codes: the caller allows it, all of its pages
// have dictionary indices, and its values repeat.
func (c *openColumn) mayCode() bool {
	pages := &c.chunks[0].stats
	return c.coded && !pages.HasValues && pages.Dictionary.Values > 0 && pages.Dictionary.Values*int64(c.group.opts.MinRepeats) <= c.group.left
}

// withoutChecksum is called if pages have no checksum. It returns an error if RequireChecksums is
// set, and otherwise calls ReadOptions.WithoutChecksum.
func (c *openColumn) withoutChecksum() error {
	opts := &c.group.opts
	if opts.RequireChecksums {
		return fault.New(fault.Invalid, "column %s has pages without a checksum, which this server requires", c.conversion.Path).
			WithRemedy("rewrite the file with page checksums (Spark: parquet.page.write-checksum.enabled, PyArrow: write_page_checksum), or turn require_checksums off")
	}
	if opts.WithoutChecksum != nil {
		opts.WithoutChecksum(c.id)
	}
	return nil
}

// decode decodes the next rows, and replaces their nulls if the column has Numbers.
func (c *openColumn) decode(rows int64) (arrow.Array, error) {
	out, err := c.decodeValues(rows)
	if err != nil || c.number == nil {
		return out, err
	}
	defer out.Release()
	return c.number.fill(out, c.group.end-c.group.left, c.group.batchMemory)
}

// decodeValues decodes the next rows in the table's type.
func (c *openColumn) decodeValues(rows int64) (arrow.Array, error) {
	mem := c.group.batchMemory
	if c.field < 0 {
		return c.absent(int(rows), nil, 0, mem)
	}
	decoded, err := c.decodeRows(rows)
	if err != nil {
		return nil, c.named(err)
	}
	defer decoded.Release()
	if got := decoded.Len(); int64(got) != rows {
		return nil, fmt.Errorf("column %s ends early: %d of %d rows are missing", c.conversion.Path, c.group.left-int64(got), c.group.left)
	}
	if c.coded && decoded.DataType().ID() == arrow.DICTIONARY {
		return c.conversion.Checked(decoded)
	}
	shaped, err := c.conversion.Apply(decoded, nil, mem)
	if err != nil {
		return nil, err
	}
	defer shaped.Release()
	return array.MakeFromData(shaped), nil
}

// decodeRows decodes the next rows in the file's type. It returns fewer rows only at the end of the
// column. The caller releases the result.
func (c *openColumn) decodeRows(rows int64) (arrow.ArrayData, error) {
	if c.own != nil {
		return c.runDecoder(rows)
	}
	decoded, err := c.runLibrary(rows)
	if err != nil {
		return nil, err
	}
	defer decoded.Release()
	if decoded.Len() == 0 {
		return array.NewData(decoded.DataType(), 0, []*memory.Buffer{nil}, nil, 0, 0), nil
	}
	if len(decoded.Chunks()) != 1 {
		return nil, fault.New(fault.Exhausted, "%d rows are too large for one batch", rows).WithRemedy("ask for fewer rows per batch")
	}
	out := decoded.Chunk(0).Data()
	c.group.memory.HandOut(out)
	if c.absent != nil {
		return convert.FillAbsent(c.absent, out, c.depth, c.group.batchMemory)
	}
	return convert.Unwrap(out, c.depth, c.group.batchMemory), nil
}

func (c *openColumn) runDecoder(rows int64) (out arrow.ArrayData, err error) {
	defer recovered(&err, c.group.file.Location(), "a page cannot be decoded")
	return c.own.Read(int(rows), c.group.batchMemory)
}

func (c *openColumn) runLibrary(rows int64) (out *arrow.Chunked, err error) {
	defer recovered(&err, c.group.file.Location(), "a page cannot be decoded")
	return c.ofLibrary.NextBatch(rows)
}

// checkEnd returns an error if the column has rows left.
func (c *openColumn) checkEnd() error {
	if c.own == nil && c.ofLibrary == nil {
		return nil
	}
	rest, err := c.decodeRows(1)
	if err != nil {
		return c.named(err)
	}
	defer rest.Release()
	if rest.Len() > 0 {
		return fmt.Errorf("column %s has more rows than its row group", c.conversion.Path)
	}
	return nil
}

// close frees the memory of the decoder.
func (c *openColumn) close() {
	if c.own != nil {
		c.own.Release()
	}
	if c.ofLibrary != nil {
		var ignored error
		defer recovered(&ignored, c.group.file.Location(), "")
		c.ofLibrary.Release()
	}
}
