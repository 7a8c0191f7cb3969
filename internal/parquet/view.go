package parquet

import (
	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/parquet/decoder"
)

// viewColumn sets the views of a column's leaves for the rows [from, to) of the open row group.
// All leaves begin at the same row, since the library reads them together. A column whose page
// headers do not tell their rows has no views: its rows before from are decoded, and dropped.
func (r *Reader) viewColumn(c column, from, to int64) error {
	if r.file.hasLongChunks() {
		return nil
	}
	all := make([]*decoder.PageStarts, len(c.leaves))
	for i, leaf := range c.leaves {
		chunk := r.source.loaded(r.file.chunkSpan(r.group.index, leaf))
		of, rows := r.file.describe(r.group.index, leaf), r.file.groups[r.group.index].Rows
		found, ok := decoder.FindPages(of, rows, chunk, nil)
		if !ok && from > 0 {
			counts, err := r.countPages(leaf)
			if err != nil {
				return err
			}
			found, ok = decoder.FindPages(of, rows, chunk, counts)
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
	for i, leaf := range c.leaves {
		chunk := r.source.loaded(r.file.chunkSpan(r.group.index, leaf))
		r.group.views[leaf] = all[i].View(chunk, all[i].Before(begin), to)
	}
	return nil
}

// wanted returns the rows [from, to) of a row group that are read, counted within it.
func (r *Reader) wanted(group int) (from, to int64) {
	rows := r.file.groups[group]
	from, to = max(r.opts.From-rows.FirstRow, 0), rows.Rows
	if r.opts.To > 0 {
		to = min(r.opts.To-rows.FirstRow, to)
	}
	return from, max(to, from)
}

// dropRows decodes rows of a column and drops them.
func (r *Reader) dropRows(i int, rows int64) error {
	if r.group.decoders[i] != nil {
		return r.skipDecoder(i, rows)
	}
	for rows > 0 {
		out, err := r.decodeRows(i, min(rows, r.group.maxRows))
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

func (r *Reader) skipDecoder(i int, rows int64) (err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	return r.group.decoders[i].Skip(int(rows))
}

// dropBefore drops the rows of all columns before the first one that is read.
func (r *Reader) dropBefore(from int64) error {
	if from == 0 {
		return nil
	}
	return r.eachColumn(func(i int) error {
		c := r.columns[i]
		if c.field < 0 {
			return nil
		}
		drop := from - r.group.views[c.leaves[0]].Row
		return r.dropColumn(i, drop)
	})
}

func (r *Reader) dropColumn(i int, rows int64) (err error) {
	defer charged.Refused(&err)
	if rows == 0 {
		return nil
	}
	if err := r.dropRows(i, rows); err != nil {
		return columnError(r.columns[i], err)
	}
	return nil
}
