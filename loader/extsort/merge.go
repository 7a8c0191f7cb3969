package extsort

import (
	"context"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/sortkey"
)

// merge merges the rows of one partition of several runs. Rows with equal keys are in the order of their runs.
type merge struct {
	order  ordering
	from   []*mergeSource
	heap   []*runCursor // cursors with a current row; the first one's row is next
	unread []*runCursor // cursors that need their next batch
}

// runCursor is a position in the rows of one partition of a run.
type runCursor struct {
	store  RunStore
	run    int // number of the run
	left   []runBatch
	source int32    // index of the current batch in merge.from
	row    int      // the current row
	chunks []uint64 // for each row of the batch, the first chunk of its key
	key    *sortkey.RowKeys
}

// newMerge returns a merge of the rows of the partition with a given number. It reads nothing yet.
func newMerge(o ordering, runs []*sortedRun, part int32) *merge {
	m := &merge{order: o}
	for i, r := range runs {
		if batches := r.parts[part]; len(batches) > 0 {
			m.unread = append(m.unread, &runCursor{store: r.store, run: i, left: batches})
		}
	}
	return m
}

func (m *merge) sources() []*mergeSource { return m.from }

// fill implements feed. If there is no memory for a further batch, it stops before the list is
// full.
func (m *merge) fill(ctx context.Context, held *budget.Reservation, to *pendingRows) error {
	for {
		for len(m.unread) > 0 {
			last := len(m.unread) - 1
			ok, err := m.load(ctx, held, m.unread[last], len(to.at) == 0)
			if err != nil || !ok {
				return err
			}
			m.push(m.unread[last])
			m.unread = m.unread[:last]
		}
		if len(m.heap) == 0 || to.full() {
			return nil
		}
		m.take(to)
	}
}

// take adds rows until the list is full or a cursor needs its next batch.
func (m *merge) take(to *pendingRows) {
	for !to.full() {
		c := m.heap[0]
		to.add(c.source, int32(c.row), m.from[c.source].rowBytes)
		c.row++
		if c.row < len(c.chunks) {
			m.down(0)
			continue
		}
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
		m.down(0)
		if len(c.left) > 0 {
			m.unread = append(m.unread, c)
		}
		return
	}
}

// chunkBytes is the size of the first chunk of a row's key.
const chunkBytes = 8

// load reads the next batch of a cursor. If there is no memory for the batch, load waits if wait is
// true, and otherwise returns false.
func (m *merge) load(ctx context.Context, held *budget.Reservation, c *runCursor, wait bool) (bool, error) {
	next := c.left[0]
	bytes := c.store.Size(int(next.number)) + int64(next.rows)*(chunkBytes+m.order.spec.RowBytes())
	if held.Grow(bytes) != nil {
		if !wait {
			return false, nil
		}
		if err := held.GrowWait(ctx, bytes); err != nil {
			return false, err
		}
	}
	b, err := c.store.Read(int(next.number))
	if err != nil {
		held.Shrink(bytes)
		return false, err
	}
	s := &mergeSource{columns: b.Columns(), batch: b, rowBytes: bytes/int64(next.rows) + 1, reserved: bytes}
	c.source = int32(len(m.from))
	m.from = append(m.from, s) // from here on, release frees the batch
	if s.key, err = m.order.spec.Keys(pick(s.columns, m.order.sort)); err != nil {
		return false, err
	}
	invariant.Check(int64(next.rows) == b.NumRows(), "a batch of %d rows was written with %d", b.NumRows(), next.rows)
	c.left, c.row, c.key = c.left[1:], 0, s.key
	c.chunks = make([]uint64, b.NumRows())
	c.key.FirstChunks(c.chunks)
	return true, nil
}

// before reports whether the current row of cursor a precedes the current row of cursor b.
func before(a, b *runCursor) bool {
	if one, two := a.chunks[a.row], b.chunks[b.row]; one != two {
		return one < two
	}
	if order := sortkey.Compare(a.key, a.row, b.key, b.row); order != 0 {
		return order < 0
	}
	return a.run < b.run
}

// push adds a cursor to the heap.
func (m *merge) push(c *runCursor) {
	m.heap = append(m.heap, c)
	at := len(m.heap) - 1
	for at > 0 {
		parent := (at - 1) / 2
		if !before(m.heap[at], m.heap[parent]) {
			return
		}
		m.heap[at], m.heap[parent] = m.heap[parent], m.heap[at]
		at = parent
	}
}

// down moves a cursor down to its place in the heap.
func (m *merge) down(at int) {
	for {
		child := 2*at + 1
		if child >= len(m.heap) {
			return
		}
		if child+1 < len(m.heap) && before(m.heap[child+1], m.heap[child]) {
			child++
		}
		if !before(m.heap[child], m.heap[at]) {
			return
		}
		m.heap[at], m.heap[child] = m.heap[child], m.heap[at]
		at = child
	}
}

// trim implements feed.
func (m *merge) trim(held *budget.Reservation, left *pendingRows) {
	needed := make([]bool, len(m.from))
	for _, source := range left.which {
		needed[source] = true
	}
	for _, c := range m.heap {
		needed[c.source] = true
	}
	moved := make([]int32, len(m.from))
	kept := m.from[:0]
	for i, s := range m.from {
		if moved[i] = int32(len(kept)); needed[i] {
			kept = append(kept, s)
			continue
		}
		s.batch.Release()
		held.Shrink(s.reserved)
	}
	clear(m.from[len(kept):])
	m.from = kept
	for i, source := range left.which {
		left.which[i] = moved[source]
	}
	for _, c := range m.heap {
		c.source = moved[c.source]
	}
}

// release implements feed.
func (m *merge) release() {
	for _, s := range m.from {
		s.batch.Release()
	}
	m.from, m.heap, m.unread = nil, nil, nil
}

// mergeRuns merges consecutive runs until all remaining runs can be read at once.
func (s *Sorter) mergeRuns(ctx context.Context) error {
	for {
		maxRuns := s.maxRuns()
		if len(s.runs) <= maxRuns {
			return nil
		}
		n := min(maxRuns, len(s.runs)-maxRuns+1)
		if err := s.mergeSome(ctx, s.smallest(n), n); err != nil {
			return err
		}
	}
}

// minRuns is the minimum number of runs that are merged at once, however little memory there is.
const minRuns = 2

// maxRuns returns the maximum number of runs that can be read at once. Each of these runs may have
// two batches in memory, and each batch of the result exists twice while it is copied.
func (s *Sorter) maxRuns() int {
	size, room := int64(1), s.memory.merge-2*s.memory.output
	for _, r := range s.runs {
		size = max(size, r.maxBytes)
		room -= r.overhead
	}
	size += size / 4 // for keys
	return int(max(room/(2*size), minRuns))
}

// smallest finds the n consecutive runs that have the fewest bytes together, and returns the index
// of the first of them.
func (s *Sorter) smallest(n int) int {
	best, least := 0, int64(-1)
	for from := range len(s.runs) - n + 1 {
		sum := int64(0)
		for _, r := range s.runs[from : from+n] {
			sum += r.store.Bytes()
		}
		if least < 0 || sum < least {
			best, least = from, sum
		}
	}
	return best
}

// mergeSome replaces n consecutive runs with one run.
func (s *Sorter) mergeSome(ctx context.Context, from, n int) error {
	store, err := s.opts.Disk(what)
	if err != nil {
		return err
	}
	merged := &sortedRun{store: store, parts: map[int32][]runBatch{}}
	for part := range s.divider.Len() {
		if err := s.mergePartition(ctx, s.runs[from:from+n], int32(part), merged); err != nil {
			store.Release()
			return err
		}
	}
	s.counts.Runs++
	s.counts.Merges++
	s.counts.BytesSpilled += store.Bytes()
	for _, r := range s.runs[from : from+n] {
		s.held.Shrink(r.overhead)
	}
	releaseRuns(s.runs[from : from+n])
	s.runs[from] = merged
	s.runs = append(s.runs[:from+1], s.runs[from+n:]...)
	return nil
}

// mergePartition merges the rows of one partition of some runs, and writes them to another run.
func (s *Sorter) mergePartition(ctx context.Context, runs []*sortedRun, part int32, to *sortedRun) error {
	order := ordering{schema: s.Schema(), spec: s.order, sort: s.sort, opts: s.opts}
	rows, err := newRows(ctx, order, s.memory.stored, newMerge(order, runs, part))
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		b := rows.RecordBatch()
		if err := s.held.GrowWait(ctx, batchOverhead); err != nil {
			return err
		}
		to.overhead += batchOverhead
		number, err := to.store.Append(b)
		if err != nil {
			return err
		}
		to.add(part, runBatch{number: int32(number), rows: int32(b.NumRows())})
	}
	return rows.Err()
}
