package parquet

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
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
	}
	r.account.giveBack(r.settle())
	return nil
}

// openGroup loads a row group, once its stored bytes are admitted, and opens its
// columns, once their pages are.
func (r *Reader) openGroup(group int) error {
	r.group = group
	r.left = r.file.groups[group].Rows
	r.open, r.own = make([]*pqarrow.ColumnReader, len(r.columns)), make([]ownColumn, len(r.columns))
	if r.left == 0 {
		return nil
	}
	spans := r.file.spans(group, r.columns)
	var stored int64
	for _, s := range merge(spans) {
		stored += s.length
	}
	if err := r.scratch.extend(stored); err != nil {
		return err
	}
	if err := r.source.load(spans); err != nil {
		return err
	}
	if err := r.admitPages(); err != nil {
		return err
	}
	for i, c := range r.columns {
		if c.field < 0 {
			continue
		}
		if err := r.openColumn(i); err != nil {
			return fmt.Errorf("column %s: %w", c.shape.path, err)
		}
	}
	return nil
}

// groupCensus is what decoding a row group takes, in bytes.
type groupCensus struct {
	scratch int64    // of pages and dictionaries
	heap    int64    // what the library makes on Go's heap
	decoded int64    // of all rows
	library []census // of the leaves that the library decodes
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
	sum.decoded += found.decoded(r.file.groups[r.group].Rows, described)
	if own {
		sum.scratch += found.ownMemory(r.codec(leaf))
		return nil
	}
	sum.library = append(sum.library, found)
	chunk := r.file.chunkSpan(r.group, leaf).length
	if r.streams {
		chunk = min(chunk, streamBuffer)
	}
	more, made := found.libraryMemory(chunk, r.run, described)
	sum.scratch, sum.heap = sum.scratch+more, sum.heap+made
	return nil
}

// admitPages follows the headers of all pages, asks for what decoding them takes,
// and says how many rows a batch may have.
func (r *Reader) admitPages() error {
	rows := r.file.groups[r.group].Rows
	r.run = min(int64(r.opts.BatchRows), rows)
	var sum groupCensus
	for _, c := range r.columns {
		if c.field < 0 {
			continue
		}
		for _, leaf := range c.leaves {
			if err := r.countLeaf(c, leaf, &sum); err != nil {
				return err
			}
		}
	}
	r.bytes = sum.decoded / rows
	if err := r.scratch.extend(sum.scratch); err != nil {
		return err
	}
	if err := r.account.ask(sum.heap, 0); err != nil {
		return err
	}
	r.heap = sum.heap
	return r.shortenAll(sum.library)
}

// shortenAll looks at the columns that the library decodes, whose pages are
// admitted: those of this package have no bytes.
func (r *Reader) shortenAll(counted []census) error {
	for _, c := range r.columns {
		if c.field < 0 || r.isOwn(c) {
			continue
		}
		for _, leaf := range c.leaves {
			if err := r.shorten(leaf, &counted[0]); err != nil {
				return fmt.Errorf("column %s: %w", c.shape.path, err)
			}
			counted = counted[1:]
		}
	}
	return nil
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

func (r *Reader) openColumn(i int) (err error) {
	defer recovered(&err, r.file.Location(), "a column cannot be decoded")
	c := r.columns[i]
	if r.own[i], err = r.openOwn(c); err != nil || r.own[i] != nil {
		return err
	}
	if r.loose(c) {
		if err := r.checkLevels(c); err != nil {
			return err
		}
	}
	leaves := make(map[int]bool, len(c.leaves))
	for _, leaf := range c.leaves {
		leaves[leaf] = true
	}
	decoder := r.cleared
	if c.shape.flat {
		decoder = r.plain
	}
	r.open[i], err = decoder.GetFieldReader(r.ctx, c.field, leaves, []int{r.group})
	return err
}

// isOwn says whether this package decodes a column of the open row group.
func (r *Reader) isOwn(c column) bool {
	flat, list := r.ownDecoders(c)
	return flat != nil || list != nil
}

// ownDecoders returns the decoder of this package for a column, if it has one.
func (r *Reader) ownDecoders(c column) (*flatColumn, *listColumn) {
	if r.file.strange() {
		return nil, nil
	}
	field := r.file.fields[c.field]
	return r.file.newFlatColumn(r.group, field), r.file.newListColumn(r.group, field)
}

// openOwn opens a top-level column if this package decodes it, else returns
// nil. Its pages are verified as they are read.
func (r *Reader) openOwn(c column) (ownColumn, error) {
	flat, list := r.ownDecoders(c)
	if flat == nil && list == nil {
		return nil, nil //nolint:nilnil // no column is no error
	}
	leaf := r.file.fields[c.field].Leaves[0]
	chunk := r.source.loaded(r.file.chunkSpan(r.group, leaf))
	pages, err := r.file.newPages(r.group, leaf, chunk, r.scratch)
	if err != nil {
		return nil, err
	}
	if flat != nil {
		flat.pages = pages
		return flat, nil
	}
	list.pages = pages
	return list, nil
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
	r.memory.sweep()
	r.source.unload()
	r.account.giveBack(r.scratch.empty() + r.heap + r.kept)
	r.heap, r.kept = 0, 0
}

func (r *Reader) closeColumn(i int) {
	var ignored error
	defer recovered(&ignored, r.file.Location(), "")
	r.open[i].Release()
}
