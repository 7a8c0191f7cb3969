package scan

import (
	"context"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// fileCache connects the reader of one file with the cache of decoded columns. For each row group,
// it looks up the rows to read in the cache, and adds the rows that the reader decodes. A nil
// fileCache uses no cache.
type fileCache struct {
	cache    *chunkcache.ColumnCache
	columns  []chunkcache.ChunkID // by index in projection.read, without the row group; an id without a Type is not cached
	types    [][]arrow.DataType   // by column: the types that its arrays may have, including codes if it may come as codes
	table    string
	require  bool // refuse columns without checksums
	repeated bool // the columns are known to be read again
	spare    bool // columns that are read for the first time fill spare room

	lost      int // number plus 1 of the row group that lost a cached column: the file supplies all its columns
	open      int // index plus 1 of the last row group whose fills were begun
	fills     []*chunkcache.Fill
	ended     []*chunkcache.Fill // fills of the previous row group, whose end is not checked yet
	took      []time.Duration    // by column: time to decode its part of the last batch
	unchecked []bool             // by column: whether a page of the open row group lacks a checksum
	views     []bool             // by column of the last batch: whether it is a view of a cached column
	viewBytes int64              // size of these views
}

// orCodes is added to the Type in the id of a column that may come as codes. The cache keeps such a
// column apart from the same column as plain values.
const orCodes = " or codes"

// newFileCache returns nil if there is no cache, or if no column of the file can be cached.
func newFileCache(w *walk, o *opened, want plan.FileRange) *fileCache {
	if w.scanner.options.Chunks == nil || w.source.Complete || w.source.Cache.Off() || !w.source.Table.Identified() {
		return nil
	}
	n := len(w.plan.read)
	c := &fileCache{
		cache: w.scanner.options.Chunks, table: w.source.Table.Name, require: w.scanner.options.RequireChecksums, repeated: w.source.Cache.FillsAtOnce(), spare: w.source.Spare,
		columns: make([]chunkcache.ChunkID, n), types: make([][]arrow.DataType, n), fills: make([]*chunkcache.Fill, n),
		took: make([]time.Duration, n), unchecked: make([]bool, n), views: make([]bool, n),
	}
	any := false
	for i, f := range w.plan.read {
		if !cacheable(w.plan, o, f) {
			continue
		}
		any = true
		c.types[i] = []arrow.DataType{f.Type}
		c.columns[i] = chunkcache.ChunkID{
			Table: w.source.Table.Pin.UUID, File: w.source.Table.RelativePath(want.File.Location), FileSize: o.FileSize(), Field: f.ID, Type: f.TypeText(),
		}
		if slices.Contains(w.coded(), f.ID) && batch.MayBeCoded(f.Type) {
			c.types[i] = append(c.types[i], batch.Coded(f.Type))
			c.columns[i].Type += orCodes
		}
		if o.mapped {
			c.columns[i].Type += " by " + w.source.Table.Pin.Mapping
		}
	}
	if !any {
		return nil
	}
	return c
}

// cacheable reports whether the values of a column depend on the file alone: neither on the row's
// number, nor on the manifest, nor on defaults of the table.
func cacheable(p *projection, o *opened, f catalog.Field) bool {
	_, stored := o.Field(f.ID)
	_, constant := o.constants[f.ID]
	return stored && !constant && !catalog.IsLineage(f.ID) && (f.Stored == nil || p.defaults == nil) && f.Type.ID() != arrow.NULL
}

// of returns the id in the cache of a column of a row group, and whether the column can be cached.
func (c *fileCache) of(column, group int) (chunkcache.ChunkID, bool) {
	out := c.columns[column]
	out.RowGroup = group
	return out, out.Type != ""
}

// find returns the function that finds the cached columns of a row group, for a read of rows [from,
// to) of the file. It returns nil if there is no cache.
func (c *fileCache) find(ctx context.Context, w *walk, groups []parquet.RowGroup, from, to int64) func(group int) []parquet.CachedColumn {
	if c == nil {
		return nil
	}
	return func(group int) []parquet.CachedColumn {
		out := make([]parquet.CachedColumn, len(c.columns))
		if c.lost == group+1 {
			return out
		}
		of := groups[group]
		want := chunkcache.Wanted{Table: c.table, Rows: of.Rows, From: max(from-of.FirstRow, 0), To: min(to-of.FirstRow, of.Rows)}
		var reads waits.Reads
		for i := range c.columns {
			column, ok := c.of(i, group)
			if !ok {
				continue
			}
			reads.Sought++
			want.Types = c.types[i]
			found := c.cache.Find(ctx, column, want)
			switch {
			case found == nil:
			case found.Unchecked() && c.require:
				found.Release()
			default:
				if found.Unchecked() {
					w.withoutChecksum.Store(true)
				}
				out[i] = &countedColumn{Pinned: found, reads: w.source.CacheReads}
				reads.Found++
			}
		}
		waits.Read(ctx, reads)
		return out
	}
}

// countedColumn counts the reads of a cached column, for the statistics of a stream.
type countedColumn struct {
	*chunkcache.Pinned

	reads *plan.CacheReads
}

// Read implements parquet.CachedColumn.
func (c *countedColumn) Read(rows int64, mem memory.Allocator) (arrow.Array, error) {
	a, err := c.Pinned.Read(rows, mem)
	if err != nil {
		return nil, err
	}
	last := c.LastRead()
	more := plan.CacheRead{Bytes: last.Bytes, Saved: last.Saved}
	if last.First {
		more.Columns = 1
	}
	c.reads.Add(more)
	return a, nil
}

// Copied implements parquet.CachedColumn.
func (c *countedColumn) Copied() bool { return c.LastRead().Copied }

// timed returns the function that measures the time that a column of a batch takes.
func (c *fileCache) timed() func(column int) (decoded func()) {
	if c == nil {
		return nil
	}
	return func(column int) (decoded func()) {
		began := c.cache.Now()
		return func() { c.took[column] = c.cache.Now().Sub(began) }
	}
}

// admit waits while the queue is full. Batches that need no memory would not wait otherwise.
func (c *fileCache) admit(ctx context.Context, q *prefetchQueue) error {
	if c == nil || c.viewBytes == 0 {
		return nil
	}
	return q.admitOrGiveUp(ctx, 0, c.viewBytes)
}

// viewed returns the bytes of the last batch that are views of cached columns.
func (c *fileCache) viewed() int64 {
	if c == nil {
		return 0
	}
	return c.viewBytes
}

// lacksChecksum notes that a column of the open row group has a page without a checksum.
func (c *fileCache) lacksChecksum(field int) {
	if c == nil {
		return
	}
	if at := slices.IndexFunc(c.columns, func(o chunkcache.ChunkID) bool { return o.Type != "" && o.Field == field }); at >= 0 {
		c.unchecked[at] = true
	}
}

// exchange returns the decoded batch with cache views in place of the columns that fill the cache,
// and the bytes that are admitted for the other columns. The caller releases the batch.
func (c *fileCache) exchange(r *fileReader) (arrow.RecordBatch, int64) {
	b, admitted := r.rows.RecordBatch(), r.rows.Admitted()
	if c == nil {
		b.Retain()
		return b, admitted
	}
	c.commit()
	c.begin(r)
	columns := slices.Clone(b.Columns())
	c.viewBytes = 0
	for i, column := range columns {
		c.views[i] = r.rows.IsView(i)
		if view := c.add(r, i, column, &admitted); view != nil {
			defer view.Release()
			columns[i], c.views[i] = view, true
		}
		if c.views[i] {
			c.viewBytes += batch.OwnArraySize(columns[i]) // dictionaries are not counted for each batch
		}
	}
	return array.NewRecordBatch(b.Schema(), columns, b.NumRows()), admitted
}

// add adds an array to a fill, and returns a view to use instead of the array. It returns nil if
// the array was not added to the cache.
func (c *fileCache) add(r *fileReader, i int, a arrow.Array, admitted *int64) arrow.Array {
	fill := c.fills[i]
	if fill == nil {
		return nil
	}
	return fill.Add(chunkcache.Decoded{Array: a, Took: c.took[i], Unchecked: c.unchecked[i], Copy: r.copied, Charge: func(bytes int64) *budget.Reservation {
		if lacks := bytes - *admitted; lacks > 0 {
			if r.queue.held.Grow(lacks) != nil {
				return nil
			}
			*admitted += lacks
		}
		*admitted -= bytes
		held := r.queue.held.Split(bytes)
		held.Share()
		return held
	}})
}

// copied returns a copy of an array for the cache to keep, with the reservation of its memory. It
// returns nil if there is no memory.
func (r *fileReader) copied(a arrow.Array) (arrow.Array, *budget.Reservation) {
	bytes := batch.ArraySize(a)
	if r.queue.held.Grow(bytes) != nil {
		return nil, nil
	}
	held := r.queue.held.Split(bytes)
	out, err := batch.Gather(a.DataType(), []batch.Segment{{Values: a, Rows: a.Len()}}, r.scanner.options.Memory)
	if err != nil {
		held.Release()
		return nil, nil
	}
	if more := batch.ArraySize(out) - bytes; more > 0 {
		err = held.Grow(more)
	} else {
		held.Shrink(-more)
	}
	if err != nil {
		out.Release()
		held.Release()
		return nil, nil
	}
	held.Share()
	return out, held
}

// begin begins the fills of the open row group, once per row group. If the row group is opened
// again for its remaining rows, those rows are not added.
func (c *fileCache) begin(r *fileReader) {
	if c.open == r.current+1 {
		return
	}
	c.open = r.current + 1
	number := r.groups[r.current]
	group := r.RowGroups()[number]
	for i := range c.fills {
		if column, ok := c.of(i, number); ok && !r.rows.FromCache(i) {
			c.fills[i] = c.cache.Fill(chunkcache.Filling{Column: column, Table: c.table, Rows: group.Rows, From: r.row - group.FirstRow, To: r.end - group.FirstRow, Repeated: c.repeated, Spare: c.spare})
		}
	}
}

// nextGroup ends the open row group, whose rows were all returned.
func (c *fileCache) nextGroup() {
	if c == nil {
		return
	}
	for i, fill := range c.fills {
		if fill != nil {
			c.ended = append(c.ended, fill)
		}
		c.fills[i] = nil
	}
	clear(c.unchecked)
}

// commit makes the columns of the previous row group available to other scans. By then, the decoder
// has checked that the row group has no excess rows.
func (c *fileCache) commit() {
	if c == nil {
		return
	}
	for _, fill := range c.ended {
		fill.Commit()
	}
	c.ended = nil
}

// abandon ends all fills without a result.
func (c *fileCache) abandon() {
	if c == nil {
		return
	}
	c.nextGroup()
	for _, fill := range c.ended {
		fill.Abandon()
	}
	c.ended = nil
}
