package parquet

import (
	"cmp"
	"slices"

	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/parquet/decoder"
)

// view sets the views of all chunks for the rows [from, to). Two columns have leaves in common if
// one of them is a whole top-level column of the file and the other a part of it. Then the whole
// column determines at which row the part begins, too.
func (g *rowGroup) view(from, to int64) error {
	largest := slices.Clone(g.columns)
	slices.SortStableFunc(largest, func(a, b *openColumn) int { return cmp.Compare(len(b.chunks), len(a.chunks)) })
	done := map[*openChunk]bool{}
	for _, c := range largest {
		if len(c.chunks) == 0 || done[c.chunks[0]] {
			continue
		}
		for _, chunk := range c.chunks {
			done[chunk] = true
		}
		if err := c.view(from, to); err != nil {
			return err
		}
	}
	return nil
}

// view sets the views of the column's chunks for the rows [from, to) of the row group. All chunks
// begin at the same row, since the library reads them together. If the page headers do not tell
// which rows the pages have, the column gets no views: its rows before from are decoded and
// dropped.
func (c *openColumn) view(from, to int64) error {
	if c.group.file.hasLongChunks() {
		return nil
	}
	rows := c.group.file.groups[c.group.index].Rows
	all := make([]*decoder.PageStarts, len(c.chunks))
	for i, chunk := range c.chunks {
		found, ok := decoder.FindPages(chunk.Chunk, rows, chunk.stored, nil)
		if !ok && from > 0 {
			counts, err := chunk.countPages()
			if err != nil {
				return err
			}
			found, ok = decoder.FindPages(chunk.Chunk, rows, chunk.stored, counts)
		}
		if !ok {
			return nil
		}
		all[i] = found
	}
	begin := from
	for aligned := false; !aligned; {
		aligned = true
		for _, starts := range all {
			if at := starts.Before(begin); at.Rows < begin {
				begin, aligned = at.Rows, false
			}
		}
	}
	for i, chunk := range c.chunks {
		view := all[i].View(chunk.stored, all[i].Before(begin), to)
		chunk.viewed = &view
	}
	return nil
}

// dropBefore drops the rows before the first one that is read.
func (c *openColumn) dropBefore(from int64) (err error) {
	defer charged.Refused(&err)
	if c.field < 0 {
		return nil
	}
	if view := c.chunks[0].viewed; view != nil {
		from -= view.Row
	}
	if from == 0 {
		return nil
	}
	if err := c.drop(from); err != nil {
		return c.named(err)
	}
	return nil
}

// drop decodes rows and drops them.
func (c *openColumn) drop(rows int64) error {
	if c.own != nil {
		return c.skipDecoder(rows)
	}
	for rows > 0 {
		out, err := c.decodeRows(min(rows, c.group.maxRows))
		if err != nil {
			return err
		}
		got := int64(out.Len())
		out.Release()
		if got == 0 {
			return decoder.ErrRowsMissing
		}
		rows -= got
	}
	return nil
}

func (c *openColumn) skipDecoder(rows int64) (err error) {
	defer recovered(&err, c.group.file.Location(), "a page cannot be decoded")
	return c.own.Skip(int(rows))
}
