package parquet

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/invariant"
)

// nextGroup ends the open row group and opens the next; open is nil after the
// last.
func (r *Reader) nextGroup() error {
	if err := r.ctx.Err(); err != nil {
		return context.Cause(r.ctx)
	}
	if err := r.begin(0); err != nil { // the rows that should not be there
		return err
	}
	if r.open != nil {
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
	r.account.giveBack(r.settle())
	return nil
}

// openGroup loads a row group, once its stored bytes are admitted, and opens its
// columns, once their pages are.
func (r *Reader) openGroup(group int) error {
	r.group = group
	r.left = r.file.groups[group].Rows
	r.rewritten = map[int]rewritten{}
	r.open, r.own = make([]*pqarrow.ColumnReader, len(r.columns)), make([]ownColumn, len(r.columns))
	if r.left == 0 {
		return nil
	}
	if err := r.loadGroup(group); err != nil {
		return err
	}
	counted, err := r.admitPages()
	if err != nil {
		return err
	}
	if err := r.openLibrary(); err != nil {
		return err
	}
	for i, c := range r.columns {
		if c.field < 0 {
			continue
		}
		if err := r.openColumn(i, counted); err != nil {
			return fmt.Errorf("column %s: %w", c.shape.path, err)
		}
	}
	return nil
}

// loadGroup reads the stored bytes of a row group, unless they were fetched ahead.
func (r *Reader) loadGroup(group int) error {
	if took, err := r.takeFetched(group); took || err != nil {
		return err
	}
	spans := r.file.spans(group, r.columns)
	var stored int64
	for _, s := range r.file.merge(spans) {
		stored += s.length
	}
	if err := r.scratch.extend(stored); err != nil {
		return err
	}
	return r.source.load(spans)
}

// openLibrary has the library read the open row group, of which chunks may have been
// rewritten.
func (r *Reader) openLibrary() (err error) {
	r.groupCleared, r.groupPlain = r.cleared, r.plain
	if len(r.rewritten) > 0 {
		defer recovered(&err, r.file.Location(), "a column cannot be decoded")
		r.groupCleared, r.groupPlain, err = r.library(r.footerOf())
	}
	return err
}

// groupCensus is what decoding a row group takes, in bytes.
type groupCensus struct {
	scratch int64          // of pages and dictionaries
	heap    int64          // what the library makes on Go's heap
	decoded int64          // of all rows
	leaves  map[int]census // of those whose values may be of any length
}

// countLeaf follows the headers of a leaf's pages.
func (r *Reader) countLeaf(c column, leaf int, sum *groupCensus) error {
	own := r.isOwn(c)
	found, err := r.checkPages(leaf, !own)
	if err != nil {
		return fmt.Errorf("column %s: %w", c.shape.path, err)
	}
	if found.bare {
		if err := r.withoutChecksum(c); err != nil {
			return err
		}
	}
	described := r.file.meta.Schema.Column(leaf)
	if mustRewrite(&found, described) {
		if found, err = r.rewrite(leaf, &found); err != nil {
			return fmt.Errorf("column %s: %w", c.shape.path, err)
		}
	}
	sum.leaves[leaf] = found
	sum.decoded += found.decoded(r.file.groups[r.group].Rows, described)
	if own {
		sum.scratch += found.ownMemory(r.codec(leaf), described)
		return nil
	}
	chunk := r.file.chunkSpan(r.group, leaf).length
	if w, ok := r.rewritten[leaf]; ok {
		chunk = int64(len(w.content))
	}
	if r.streams {
		chunk = min(chunk, streamBuffer)
	}
	more, made := found.libraryMemory(chunk, r.run, described)
	sum.scratch, sum.heap = sum.scratch+more, sum.heap+made
	return nil
}

// admitPages follows the headers of all pages, and asks for what decoding them takes.
func (r *Reader) admitPages() (groupCensus, error) {
	rows := r.file.groups[r.group].Rows
	r.run = min(int64(r.opts.BatchRows), rows)
	sum := groupCensus{leaves: map[int]census{}}
	for _, c := range r.columns {
		if c.field < 0 {
			continue
		}
		for _, leaf := range c.leaves {
			if err := r.countLeaf(c, leaf, &sum); err != nil {
				return sum, err
			}
		}
	}
	r.bytes = sum.decoded / rows
	if err := r.scratch.extend(sum.scratch); err != nil {
		return sum, err
	}
	if err := r.account.ask(sum.heap, 0); err != nil {
		return sum, err
	}
	r.heap = sum.heap
	return sum, nil
}

// codec is the compression of a leaf's pages in the open row group.
func (r *Reader) codec(leaf int) compress.Compression {
	return compress.Compression(r.file.meta.RowGroups[r.group].Columns[leaf].MetaData.Codec)
}

// checkPages holds a leaf's pages to the footer, and verifies checksums where the
// library will read them.
func (r *Reader) checkPages(leaf int, sums bool) (out census, err error) {
	defer recovered(&err, r.file.Location(), "a column cannot be decoded")
	return r.file.checkPages(r.group, leaf, r.source.loaded(r.file.chunkSpan(r.group, leaf)), sums)
}

// openColumn opens a column, whose pages are admitted, and says how many rows a batch
// may have for it.
func (r *Reader) openColumn(i int, counted groupCensus) (err error) {
	defer recovered(&err, r.file.Location(), "a column cannot be decoded")
	c := r.columns[i]
	if r.own[i], err = r.openOwn(c); err != nil {
		return err
	}
	text, _ := r.own[i].(*textColumn)
	if r.own[i] != nil && text == nil {
		return nil // its values are of one width
	}
	if r.loose(c) {
		if err := r.checkLevels(c); err != nil {
			return err
		}
	}
	for _, leaf := range c.leaves {
		longest := func() (int64, error) { return r.longestValue(leaf) }
		if text != nil {
			longest = text.longestValue
		}
		if err := r.shorten(leaf, counted.leaves[leaf], longest); err != nil {
			return err
		}
	}
	if text != nil {
		return nil
	}
	leaves := make(map[int]bool, len(c.leaves))
	for _, leaf := range c.leaves {
		leaves[leaf] = true
	}
	decoder := r.groupCleared
	if c.shape.flat {
		decoder = r.groupPlain
	}
	r.open[i], err = decoder.GetFieldReader(r.ctx, c.field, leaves, []int{r.group})
	return err
}

// isOwn says whether this package decodes a column of the open row group.
func (r *Reader) isOwn(c column) bool { return r.ownDecoder(c, nil) != nil }

// ownDecoder returns the decoder of this package for the pages of a top-level
// column, if it has one, else nil.
func (r *Reader) ownDecoder(c column, from *pages) ownColumn {
	if r.file.strange() {
		return nil
	}
	field := r.file.fields[c.field]
	if flat := r.file.newFlatColumn(r.group, field); flat != nil {
		flat.pages = from
		return flat
	}
	if list := r.file.newListColumn(r.group, field); list != nil {
		list.pages = from
		return list
	}
	if text := r.file.newTextColumn(r.group, field); text != nil {
		text.pages = from
		return text
	}
	return nil
}

// openOwn opens a top-level column if this package decodes it, else returns
// nil. Its pages are verified as they are read.
func (r *Reader) openOwn(c column) (ownColumn, error) {
	if !r.isOwn(c) {
		return nil, nil //nolint:nilnil // no column is no error
	}
	leaf := r.file.fields[c.field].Leaves[0]
	chunk := r.source.loaded(r.file.chunkSpan(r.group, leaf))
	from, err := r.file.newPages(r.group, leaf, chunk, r.scratch)
	if err != nil {
		return nil, err
	}
	return r.ownDecoder(c, from), nil
}

// closeGroup gives back what the open row group holds.
func (r *Reader) closeGroup() {
	for i, c := range r.open {
		if c != nil {
			r.closeColumn(i)
		}
	}
	for _, c := range r.own {
		if c != nil {
			c.close()
		}
	}
	r.open, r.own, r.left = nil, nil, 0
	r.groupCleared, r.groupPlain, r.rewritten = nil, nil, nil
	r.memory.sweep()
	invariant.Check(r.memory.kept == 0, "the decoder of %s keeps %d bytes that a batch has", r.file.Location(), r.memory.kept)
	r.source.unload()
	r.account.giveBack(r.scratch.empty() + r.heap + r.kept)
	r.heap, r.kept = 0, 0
}

func (r *Reader) closeColumn(i int) {
	var ignored error
	defer recovered(&ignored, r.file.Location(), "")
	r.open[i].Release()
}
