package parquet

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/parquet/decoder"
	"github.com/penstock/penstock/internal/parquet/page"
)

// openRowGroup is the row group that a Reader decodes. columns is nil if none is open.
type openRowGroup struct {
	index     int                    // in the file
	left      int64                  // rows that are not decoded yet
	end       int64                  // row in the file after them
	views     map[int]decoder.View   // by leaf, of the columns that are not decoded from their first row, or to their last
	maxRows   int64                  // of a batch
	rowBytes  int64                  // estimated memory of a decoded row
	heap      int64                  // reserved for what the library allocates by itself
	rewritten map[int]rewrittenChunk // those that the library cannot decode as stored, by leaf

	cleared, plain *pqarrow.FileReader     // the Reader's, or those of the rewritten chunks
	columns        []*pqarrow.ColumnReader // of the library; nil: absent, or in decoders
	decoders       []decoder.Column        // of this package; nil for the other columns
}

// nextGroup closes the open row group and opens the next one. group.columns is nil after the last
// one.
func (r *Reader) nextGroup() error {
	if err := r.ctx.Err(); err != nil {
		return context.Cause(r.ctx)
	}
	if err := r.startBatch(0); err != nil { // for surplus rows, found by checkEnd
		return err
	}
	if r.group.columns != nil && r.atEnd() {
		if err := r.checkEnd(); err != nil {
			return err
		}
	}
	r.closeGroup()
	if r.next < len(r.opts.RowGroups) {
		if err := r.openGroup(r.opts.RowGroups[r.next]); err != nil {
			return err
		}
		r.next++
		r.Fetch()
	}
	r.account.Release(r.finishBatch())
	return nil
}

// openGroup loads a row group and opens its columns. The stored bytes, and then the
// memory to decode the pages, are reserved first.
func (r *Reader) openGroup(group int) error {
	r.group.index = group
	from, to := r.wanted(group)
	r.group.left, r.group.end = to-from, r.file.groups[group].FirstRow+to
	r.group.rewritten, r.group.views = map[int]rewrittenChunk{}, map[int]decoder.View{}
	r.group.columns, r.group.decoders = make([]*pqarrow.ColumnReader, len(r.columns)), make([]decoder.Column, len(r.columns))
	if r.group.left == 0 {
		return nil
	}
	r.useCached(group, from)
	if err := r.loadGroup(group); err != nil {
		return err
	}
	r.countAsked(group)
	if to-from < r.file.groups[group].Rows {
		for _, c := range r.columns {
			if err := r.viewColumn(c, from, to); err != nil {
				return err
			}
		}
	}
	counted, err := r.reservePages()
	if err != nil {
		return err
	}
	if err := r.openLibrary(); err != nil {
		return err
	}
	if err := r.eachColumn(func(i int) error { return r.openDictionary(r.columns[i], counted) }); err != nil {
		return err
	}
	for i, c := range r.columns {
		if c.field < 0 {
			continue
		}
		if err := r.openColumn(i, counted); err != nil {
			return columnError(c, err)
		}
	}
	return r.dropBefore(from)
}

// countAsked reports the stored size of the chunks of the columns that are decoded.
func (r *Reader) countAsked(group int) {
	if r.opts.Asked == nil {
		return
	}
	bytes := int64(0)
	for _, s := range r.file.spans(group, r.columns) {
		bytes += s.length
	}
	r.opts.Asked(bytes)
}

// columnError names the column of an error.
func columnError(c column, err error) error {
	return fmt.Errorf("column %s: %w", c.conversion.Path, err)
}

// atEnd reports whether the last row of the open row group was decoded.
func (r *Reader) atEnd() bool {
	group := r.file.groups[r.group.index]
	return r.group.left == 0 && r.group.end == group.FirstRow+group.Rows
}

// loadGroup reads the stored bytes of a row group, unless they were read ahead.
func (r *Reader) loadGroup(group int) error {
	if took, err := r.takeFetched(group); took || err != nil {
		return err
	}
	spans := r.file.spans(group, r.columns)
	if len(spans) == 0 {
		return nil
	}
	if r.opts.Shared != nil {
		return r.loadShared(group, spans)
	}
	_, stored := r.file.wanted(spans)
	if err := r.scratch.Extend(stored); err != nil {
		return err
	}
	return r.source.load(spans)
}

// openLibrary sets the library's readers for the open row group, some of whose chunks may
// have been rewritten.
func (r *Reader) openLibrary() (err error) {
	r.group.cleared, r.group.plain = r.cleared, r.plain
	views := r.viewedByLibrary()
	if len(r.group.rewritten)+len(views) > 0 {
		defer recovered(&err, r.file.Location(), "a column cannot be decoded")
		r.group.cleared, r.group.plain, err = r.library(r.rewrittenFooter(views))
	}
	return err
}

// groupStats is the memory that decoding a row group takes, in bytes.
type groupStats struct {
	scratch int64              // for pages and dictionaries
	heap    int64              // allocated by the library on the Go heap
	decoded int64              // the decoded rows that are read
	leaves  map[int]page.Stats // by leaf
}

// addLeaf adds a leaf, by its page headers.
func (r *Reader) addLeaf(c column, leaf int, sum *groupStats) error {
	own := r.decodes(c)
	view, viewed := r.group.views[leaf]
	found, err := r.checkPages(leaf, !own && !viewed)
	if err != nil {
		return columnError(c, err)
	}
	if found.LacksChecksum {
		if err := r.withoutChecksum(c); err != nil {
			return err
		}
	}
	described := r.file.meta.Schema.Column(leaf)
	chunk, rows := r.file.chunkSpan(r.group.index, leaf).length, r.file.groups[r.group.index].Rows
	if viewed {
		chunk, rows = int64(len(view.Dictionary)+len(view.Body)), view.Rows
		if found, err = view.Stats(described, !own); err != nil {
			return columnError(c, err)
		}
	}
	if !own && decoder.MustReplace(&found, described) {
		if found, err = r.rewrite(leaf, &found); err != nil {
			return columnError(c, err)
		}
	}
	found.Rows = rows
	sum.leaves[leaf] = found
	sum.decoded += found.DecodedBytes(rows, described) * r.group.left / rows
	if own {
		sum.scratch += found.DecoderMemory(r.codec(leaf), described)
		if r.sharesDictionary(leaf, &found) {
			sum.scratch -= found.Dictionary.Bytes
		}
		return nil
	}
	if w, ok := r.group.rewritten[leaf]; ok {
		chunk = int64(len(w.content))
	}
	if r.streams {
		chunk = min(chunk, streamBuffer)
	}
	more, made := found.LibraryMemory(chunk, r.group.maxRows, described)
	sum.scratch, sum.heap = sum.scratch+more, sum.heap+made
	return nil
}

// reservePages walks all page headers and reserves the memory to decode the pages.
func (r *Reader) reservePages() (groupStats, error) {
	r.group.maxRows = min(int64(r.opts.BatchRows), r.group.left)
	sum := groupStats{leaves: map[int]page.Stats{}}
	for _, c := range r.columns {
		if c.field < 0 {
			continue
		}
		for _, leaf := range c.leaves {
			if err := r.addLeaf(c, leaf, &sum); err != nil {
				return sum, err
			}
		}
	}
	r.group.rowBytes = sum.decoded / r.group.left
	if err := r.scratch.Extend(sum.scratch); err != nil {
		return sum, err
	}
	if err := r.account.Reserve(sum.heap); err != nil {
		return sum, err
	}
	r.group.heap = sum.heap
	return sum, nil
}

// codec returns the codec of a leaf in the open row group.
func (r *Reader) codec(leaf int) compress.Compression {
	return compress.Compression(r.file.meta.RowGroups[r.group.index].Columns[leaf].MetaData.Codec)
}

// checkPages compares a leaf's pages with the footer. With verify it also checks their
// checksums, which the library does not.
func (r *Reader) checkPages(leaf int, verify bool) (out page.Stats, err error) {
	defer recovered(&err, r.file.Location(), "a column cannot be decoded")
	return page.Check(r.file.describe(r.group.index, leaf), r.source.loaded(r.file.chunkSpan(r.group.index, leaf)), verify)
}

// openColumn opens a column whose pages are reserved, and limits the rows of a batch for
// it.
func (r *Reader) openColumn(i int, counted groupStats) (err error) {
	defer recovered(&err, r.file.Location(), "a column cannot be decoded")
	c := r.columns[i]
	if r.group.decoders[i], err = r.openDecoder(c, counted); err != nil {
		return err
	}
	text, _ := r.group.decoders[i].(*decoder.Text)
	if r.group.decoders[i] != nil && text == nil {
		r.limitFixed(c.leaves[0], counted.leaves[c.leaves[0]])
		return nil
	}
	if r.needsLevelCheck(c) {
		if err := r.checkLevels(c); err != nil {
			return err
		}
	}
	if text != nil {
		if stats := counted.leaves[c.leaves[0]]; r.mayCode(c, &stats) {
			return text.Code(func(size int) (*memory.Buffer, error) { return r.account.NewDetached(r.opts.Memory, size) }) // codes have a fixed width
		}
		return r.limitText(text, c.leaves[0], counted.leaves[c.leaves[0]])
	}
	for _, leaf := range c.leaves {
		if err := r.limitBatch(leaf, counted.leaves[leaf]); err != nil {
			return err
		}
	}
	leaves := make(map[int]bool, len(c.leaves))
	for _, leaf := range c.leaves {
		leaves[leaf] = true
	}
	library := r.group.cleared
	if c.conversion.Flat {
		library = r.group.plain
	}
	r.group.columns[i], err = library.GetFieldReader(r.ctx, c.field, leaves, []int{r.group.index})
	return err
}

// mayCode reports whether a column of the open row group is decoded as codes, given its pages:
// all of them have indices, and values repeat.
func (r *Reader) mayCode(c column, pages *page.Stats) bool {
	return c.coded && !pages.HasValues && pages.Dictionary.Values > 0 && pages.Dictionary.Values*int64(r.opts.MinRepeats) <= r.group.left
}

// decodes reports whether this package decodes a column of the open row group.
func (r *Reader) decodes(c column) bool { return r.newDecoder(c, nil) != nil }

// newDecoder returns our decoder for a top-level column and its pages, or nil
// if there is none.
func (r *Reader) newDecoder(c column, from *page.Reader) decoder.Column {
	if r.file.hasLongChunks() {
		return nil
	}
	field := r.file.fields[c.field]
	if len(field.Leaves) != 1 {
		return nil
	}
	leaf := field.Leaves[0]
	of, rows := r.file.describe(r.group.index, leaf), r.file.groups[r.group.index].Rows
	if v, ok := r.group.views[leaf]; ok {
		of.Values, rows = v.Values, v.Rows
	}
	return decoder.New(of, field.arrow, rows, from)
}

// pages returns the pages of a leaf in the open row group.
func (r *Reader) pages(leaf int) (*page.Reader, error) {
	chunk := r.source.loaded(r.file.chunkSpan(r.group.index, leaf))
	all, err := page.NewReader(r.file.describe(r.group.index, leaf), chunk, r.scratch)
	if view, ok := r.group.views[leaf]; ok && err == nil {
		return view.Pages(all), nil
	}
	return all, err
}

// openDecoder opens a top-level column if this package decodes it, and otherwise returns
// nil. Page checksums are verified as pages are read.
func (r *Reader) openDecoder(c column, counted groupStats) (decoder.Column, error) {
	if !r.decodes(c) {
		return nil, nil //nolint:nilnil // no decoder is not an error
	}
	leaf := r.file.fields[c.field].Leaves[0]
	from, err := r.pages(leaf)
	if err != nil {
		return nil, err
	}
	stats := counted.leaves[leaf]
	if from.Known, err = r.dictionary(leaf, &stats); err != nil {
		return nil, err
	}
	return r.newDecoder(c, from), nil
}

// closeGroup frees the memory of the open row group.
func (r *Reader) closeGroup() {
	r.closeColumns()
	r.cached.release()
	r.cached = cachedColumns{}
	r.source.leave()
}

// closeColumns frees the memory of the open row group, except for memory that was read ahead or is shared.
func (r *Reader) closeColumns() {
	for i, c := range r.group.columns {
		if c != nil {
			r.closeColumn(i)
		}
	}
	for _, c := range r.group.decoders {
		if c != nil {
			c.Release()
		}
	}
	kept := r.memory.ReleaseAll()
	invariant.Check(kept == 0, "the decoder of %s keeps %d bytes that a batch has", r.file.Location(), kept)
	r.source.free()
	r.account.Release(r.scratch.Drain() + r.group.heap + r.kept)
	r.group, r.kept = openRowGroup{index: r.group.index}, 0
}

func (r *Reader) closeColumn(i int) {
	var ignored error
	defer recovered(&ignored, r.file.Location(), "")
	r.group.columns[i].Release()
}
