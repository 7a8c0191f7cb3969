package extsort

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sortkey"
)

// rowBlock has some of the rows that are collected in memory.
type rowBlock struct {
	columns    []arrow.Array
	rows       int
	partitions []int32 // by row
	key        *sortkey.RowKeys
	bytes      int64 // memory reserved for the rows
}

func (b *rowBlock) release() {
	for _, c := range b.columns {
		c.Release()
	}
}

// collection is the rows in memory that are not yet sorted, in the order in which they were added.
type collection struct {
	blocks []*rowBlock
	bytes  int64 // memory reserved for the rows
	rows   int
	small  int // number of small blocks at the end of blocks
}

func (c *collection) release() {
	for _, b := range c.blocks {
		b.release()
	}
	*c = collection{}
}

// Memory besides the values of rows. rowOverhead is for each row: its partition, and twice its
// entry while rows are sorted (once as scratch). columnOverhead is for each column of a block.
const (
	rowOverhead    = 4 + 2*sortkey.EntryBytes
	columnOverhead = 512
	// A block is small if it has less than 1/smallShare of a block's usual bytes. maxSmallBlocks is
	// the number of consecutive small blocks that are joined.
	smallShare     = 4
	maxSmallBlocks = 16
	// maxAddedRows is the maximum number of rows that are added at a time. It bounds the memory per
	// row that is not reserved.
	maxAddedRows = 1 << 16
)

// add adds the rows of a batch, in portions that fit in a block.
func (s *Sorter) add(ctx context.Context, b arrow.RecordBatch) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	rows := b.NumRows()
	if rows == 0 {
		return nil
	}
	converting, err := s.conform.Bytes(b)
	if err != nil {
		return err
	}
	if rows > 1 && (converting > s.memory.block || rows > maxAddedRows) {
		return s.addHalves(ctx, b)
	}
	if converting > s.memory.block { // one long row
		if err := s.makeRoom(ctx, converting); err != nil {
			return err
		}
		defer s.held.Shrink(converting)
	}
	converted, err := s.conform.Batch(b, s.opts.Memory)
	if err != nil {
		return err
	}
	defer converted.Release()
	return s.addConverted(ctx, converted)
}

func (s *Sorter) addHalves(ctx context.Context, b arrow.RecordBatch) error {
	rows := b.NumRows()
	for _, part := range [2][2]int64{{0, rows / 2}, {rows / 2, rows}} {
		half := b.NewSlice(part[0], part[1])
		err := s.add(ctx, half)
		half.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// addConverted adds rows whose columns were converted to the types of the result.
func (s *Sorter) addConverted(ctx context.Context, b arrow.RecordBatch) error {
	keep, err := s.kept(ctx, b)
	if err != nil {
		return err
	}
	for from := 0; from < keep.n; {
		next, err := s.nextBlock(b, keep, from)
		if err != nil {
			return err
		}
		if err := s.addBlock(ctx, next); err != nil {
			return err
		}
		from += next.rows
	}
	return s.joinSmall()
}

// rowsToKeep are the rows of a batch that are not dropped.
type rowsToKeep struct {
	n    int
	rows []int32 // nil: all
}

// from returns n of the kept rows, beginning at the given one of them, as a segment of a column.
func (k rowsToKeep) from(column arrow.Array, first, n int) batch.Segment {
	if k.rows == nil {
		return batch.Segment{Values: column, From: first, Rows: n}
	}
	return batch.Segment{Values: column, Indices: k.rows[first : first+n]}
}

// blockRows are the rows for a new block: their segments by column, and the bytes of the block.
type blockRows struct {
	segments [][]batch.Segment
	rows     int
	bytes    int64
}

// nextBlock returns as many of the next rows of a batch as fit in a block, but at least one row.
func (s *Sorter) nextBlock(b arrow.RecordBatch, keep rowsToKeep, from int) (blockRows, error) {
	for n := keep.n - from; ; {
		next := blockRows{rows: n}
		for _, c := range b.Columns() {
			next.segments = append(next.segments, []batch.Segment{keep.from(c, from, n)})
		}
		if err := s.measure(&next); err != nil {
			return next, err
		}
		if next.bytes <= s.memory.block || n == 1 {
			return next, nil
		}
		n = max(int(int64(n)*s.memory.block/next.bytes), 1)
	}
}

// measure sets the bytes of a block.
func (s *Sorter) measure(b *blockRows) error {
	g := batch.NewGatherer(s.opts.Memory)
	defer g.Release()
	b.bytes = int64(b.rows)*(rowOverhead+s.order.RowBytes()) + int64(s.Schema().NumFields()*columnOverhead)
	for i, list := range b.segments {
		more, err := g.Size(s.Schema().Field(i).Type, list)
		if err != nil {
			return err
		}
		b.bytes += more
	}
	return nil
}

// addBlock copies rows into a block.
func (s *Sorter) addBlock(ctx context.Context, of blockRows) error {
	if err := s.makeRoom(ctx, of.bytes); err != nil {
		return err
	}
	b, err := s.newBlock(of)
	if err != nil {
		s.held.Shrink(of.bytes)
		return err
	}
	s.rows.append(b, s.memory.block)
	if err := s.countPartitions(ctx, b); err != nil || s.opts.Each == nil {
		return err
	}
	return s.opts.Each(ctx, AddedRows{Columns: b.columns, Partitions: b.partitions, Values: func(p int32) []any { return s.divider.Values(int(p)) }})
}

// append adds a block.
func (c *collection) append(b *rowBlock, usual int64) {
	c.blocks = append(c.blocks, b)
	c.rows += b.rows
	c.bytes += b.bytes
	c.small++
	if b.bytes > usual/smallShare {
		c.small = 0
	}
}

// newBlock gathers the columns of a block, and assigns its rows to partitions.
func (s *Sorter) newBlock(of blockRows) (*rowBlock, error) {
	b := &rowBlock{rows: of.rows, partitions: make([]int32, of.rows), bytes: of.bytes}
	g := batch.NewGatherer(s.opts.Memory)
	defer g.Release()
	for i, list := range of.segments {
		column, err := g.Gather(s.Schema().Field(i).Type, list)
		if err != nil {
			b.release()
			return nil, err
		}
		b.columns = append(b.columns, column)
	}
	err := s.divider.Assign(b.partitions, b.columns)
	if err == nil {
		b.key, err = s.order.Keys(pick(b.columns, s.sort))
	}
	if err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// pick returns the columns at some positions.
func pick(columns []arrow.Array, at []int) []arrow.Array {
	out := make([]arrow.Array, len(at))
	for i, column := range at {
		out[i] = columns[column]
	}
	return out
}

// joinSmall joins small blocks if there are many, because each block costs memory and time
// regardless of its size.
func (s *Sorter) joinSmall() error {
	c := &s.rows
	if c.small < maxSmallBlocks {
		return nil
	}
	old := c.blocks[len(c.blocks)-c.small:]
	c.small = 0
	joined := blockRows{segments: make([][]batch.Segment, s.Schema().NumFields())}
	for _, b := range old {
		joined.rows += b.rows
		for i, column := range b.columns {
			joined.segments[i] = append(joined.segments[i], batch.Segment{Values: column, Rows: b.rows})
		}
	}
	if err := s.measure(&joined); err != nil {
		return err
	}
	if s.held.Grow(joined.bytes) != nil {
		return nil //nolint:nilerr // without memory, the blocks are not joined
	}
	b, err := s.newBlock(joined)
	if err != nil {
		s.held.Shrink(joined.bytes)
		return err
	}
	for _, b := range old {
		c.bytes -= b.bytes
		c.rows -= b.rows
		b.release()
		s.held.Shrink(b.bytes)
	}
	c.blocks = c.blocks[:len(c.blocks)-len(old)]
	c.append(b, s.memory.block)
	return nil
}

// makeRoom reserves memory. It first writes the collected rows to disk if there are too many of
// them, if the budget lacks room, or if other streams wait for memory.
func (s *Sorter) makeRoom(ctx context.Context, bytes int64) error {
	waited := s.opts.Budget.Waited() && s.rows.bytes > s.memory.collect/smallShare
	if s.rows.rows > 0 && (waited || !s.hasRoom(bytes)) {
		if err := s.spill(ctx); err != nil {
			return err
		}
	}
	if s.rows.rows > 0 {
		if s.held.Grow(bytes) == nil {
			return nil
		}
		if err := s.spill(ctx); err != nil {
			return err
		}
	}
	return s.held.GrowWait(ctx, bytes)
}

// hasRoom reports whether rows of the given bytes can be collected in addition to those in memory. It
// reserves spare memory for the rows beyond the Sorter's own memory.
func (s *Sorter) hasRoom(bytes int64) bool {
	more := s.rows.bytes + bytes - s.memory.collect - s.spare.Held()
	return more <= 0 || s.spare.Grow(more) == nil
}

// countPartitions counts the rows of a block by partition.
func (s *Sorter) countPartitions(ctx context.Context, b *rowBlock) error {
	if n := s.divider.Len(); n > s.opts.MaxPartitions {
		return fault.New(fault.Exhausted, "the rows are in more than %d partitions", s.opts.MaxPartitions).
			WithRemedy("partition the table by fewer or coarser fields, or write fewer rows at a time")
	}
	if more := s.divider.Bytes() + int64(s.divider.Len()*partitionOverhead) - s.parts.bytes; more > 0 {
		if err := s.held.GrowWait(ctx, more); err != nil {
			return err
		}
		s.parts.bytes += more
	}
	for len(s.parts.rows) < s.divider.Len() {
		s.parts.rows = append(s.parts.rows, 0)
	}
	for _, p := range b.partitions {
		s.parts.rows[p]++
	}
	return nil
}

// partitionRows counts the rows of each partition, by its number.
type partitionRows struct {
	rows  []int64
	bytes int64 // memory reserved for partitions: their values and counts
}

// partitionOverhead is the memory of a partition besides its values.
const partitionOverhead = 128

// kept counts rows and rows with a null in the key. It returns the rows whose keys are in the set.
func (s *Sorter) kept(ctx context.Context, b arrow.RecordBatch) (rowsToKeep, error) {
	rows := int(b.NumRows())
	s.counts.Rows += int64(rows)
	keys := pick(b.Columns(), s.layout.Key)
	null := nullKeys(keys, rows)
	for _, is := range null {
		if is {
			s.counts.NullKeys++
		}
	}
	if s.opts.Keys == nil {
		return rowsToKeep{n: rows}, nil
	}
	found := make([]bool, rows)
	batchOfKeys := array.NewRecordBatch(s.keySchema(), keys, int64(rows))
	defer batchOfKeys.Release()
	if err := s.opts.Keys.Contains(ctx, batchOfKeys, found); err != nil {
		return rowsToKeep{}, err
	}
	keep := make([]int32, 0, rows)
	for row, is := range found {
		if is && (null == nil || !null[row]) {
			keep = append(keep, int32(row))
		}
	}
	s.counts.Dropped += int64(rows - len(keep))
	return rowsToKeep{n: len(keep), rows: keep}, nil
}

func (s *Sorter) keySchema() *arrow.Schema {
	fields := make([]arrow.Field, len(s.layout.Key))
	for i, column := range s.layout.Key {
		fields[i] = s.Schema().Field(column)
	}
	return arrow.NewSchema(fields, nil)
}

// nullKeys returns for each row whether a column of the key is null, or nil if no row has a null
// key column.
func nullKeys(keys []arrow.Array, rows int) []bool {
	var null []bool
	for _, k := range keys {
		if k.NullN() == 0 {
			continue
		}
		if null == nil {
			null = make([]bool, rows)
		}
		for row := range null {
			null[row] = null[row] || k.IsNull(row)
		}
	}
	return null
}
