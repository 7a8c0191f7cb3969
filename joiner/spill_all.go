package joiner

import (
	"context"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// gatherAll answers training rows that take all their staging rows. The rows
// of a group come from chunk after chunk, so they are written by chunk first,
// and then put together: in the order of the chunks, which is that of arrival,
// or merged by the order columns.
func (n *noting) gatherAll(ctx context.Context, asked, rows []stored, w *noteWriter) error {
	w.fit(bytesOf(rows) / countOf(rows))
	for len(asked) > 0 {
		some := upTo(asked, func(x stored) int64 { return runSize * x.rows }, n.limit/slicePerSide)
		if err := n.gatherPortion(ctx, asked[:some], rows, w); err != nil {
			return err
		}
		asked = asked[some:]
	}
	return nil
}

func (n *noting) gatherPortion(ctx context.Context, asked, rows []stored, w *noteWriter) error {
	store, err := n.side.how.Disk(n.side.spec.Name)
	if err != nil {
		return err
	}
	defer store.Release()
	g := &gathering{noteWriter: w, runs: make([][]run, countOf(asked)), opened: map[int]*opened{}}
	defer g.close()
	if err := g.grow(countOf(asked) * runSize); err != nil {
		return err
	}
	if g.order, err = rankFields(n.side.parts.schema, n.side.spec.OrderBy); err != nil {
		return err
	}
	err = n.chunks(ctx, rows, func(side *BuildSide, chunk []stored) error {
		members, err := g.take(ctx, side, asked)
		if err != nil {
			return err
		}
		to := n.side.parts.over(store)
		g.copies = append(g.copies, to)
		return g.copy(chunk, members, &to.parts[0])
	})
	if err != nil {
		return err
	}
	n.side.spilled.Add(store.Bytes())
	if err := g.answer(ctx); err != nil {
		return err
	}
	return w.flush()
}

// run is the staging rows that one training row takes of one chunk, in their
// order.
type run struct {
	chunk int
	from  int64 // among the rows that were copied of the chunk
	rows  int64
	time  int64 // of the rows, if the rule has a time
}

// runSize bounds the bytes of a run, its place in lists, and an answer.
const runSize = 96

// gathering puts the groups of a portion of training rows together.
type gathering struct {
	*noteWriter
	runs   [][]run  // by training row
	hashes []int32  // by training row
	copies []*Parts // the rows that were copied of each chunk
	order  []ranked
	opened map[int]*opened // by chunk
	bytes  int64           // reserved
}

func (g *gathering) grow(n int64) error {
	g.bytes += n
	err := g.held.Grow(n)
	if err != nil {
		g.bytes -= n
	}
	return err
}

func (g *gathering) close() {
	for _, o := range g.opened {
		o.close()
	}
	g.held.Shrink(g.bytes)
}

// take notes the runs of a chunk, and lists the rows that they consist of.
func (g *gathering) take(ctx context.Context, side *BuildSide, asked []stored) ([]int32, error) {
	var members []int32
	begun := map[int32]int64{} // by the first row of a run, where it begins in members
	row, more := 0, int64(0)
	g.hashes = g.hashes[:0]
	err := g.match(ctx, side, asked, func(m *match, refs, checks []int32) error {
		g.hashes = append(g.hashes, checks...)
		for i, ref := range refs {
			if ref != 0 {
				rows := []int32{ref - 1}
				if m.counts != nil && m.counts[i] > 1 {
					rows = side.groups.members[m.from[i] : m.from[i]+m.counts[i]]
				}
				from, ok := begun[ref]
				if !ok {
					from = int64(len(members))
					begun[ref] = from
					members = append(members, rows...)
				}
				r := run{chunk: len(g.copies), from: from, rows: int64(len(rows))}
				if g.rule.Time != nil {
					r.time = side.times[ref-1]
				}
				g.runs[row] = latest(g.runs[row], r)
				more += runSize
			}
			row++
		}
		return nil
	})
	if err == nil {
		err = g.grow(more)
	}
	return members, err
}

// latest adds a run to those of a training row, of which only those of the
// latest time count.
func latest(runs []run, r run) []run {
	switch {
	case len(runs) == 0 || runs[0].time == r.time:
		return append(runs, r)
	case runs[0].time < r.time:
		return append(runs[:0], r)
	default:
		return runs
	}
}

// copy writes rows of a chunk, in the order in which they are listed.
func (g *gathering) copy(chunk []stored, rows []int32, to *storedPart) error {
	from := g.bytes
	defer func() {
		g.held.Shrink(g.bytes - from)
		g.bytes = from
	}()
	if err := g.grow(bytesOf(chunk) + g.rowBytes); err != nil {
		return err
	}
	var batches []arrow.RecordBatch
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	for _, x := range chunk {
		b, err := g.side.parts.store.Read(x.number)
		if err != nil {
			return err
		}
		batches = append(batches, b)
	}
	for len(rows) > 0 {
		some := rows[:min(len(rows), g.mostRows)]
		rows = rows[len(some):]
		if err := g.copyBatch(chunk, batches, some, to); err != nil {
			return err
		}
	}
	return nil
}

func (g *gathering) copyBatch(chunk []stored, batches []arrow.RecordBatch, rows []int32, to *storedPart) error {
	schema := g.side.parts.schema
	segments := make([][]batch.Segment, schema.NumFields())
	last := -1
	for _, row := range rows {
		at := sort.Search(len(chunk), func(i int) bool { return chunk[i].from-chunk[0].from > int64(row) }) - 1
		for c := range segments {
			if at != last {
				segments[c] = append(segments[c], batch.Segment{Values: batches[at].Column(c)})
			}
			s := &segments[c][len(segments[c])-1]
			s.Indices = append(s.Indices, row-int32(chunk[at].from-chunk[0].from))
		}
		last = at
	}
	b, err := gatherRows(schema, segments, 0, len(rows), g.side.opts.memory())
	if err != nil {
		return err
	}
	defer b.Release()
	store := g.copies[len(g.copies)-1].store
	number, err := store.Append(b)
	if err != nil {
		return err
	}
	to.add(number, b.NumRows(), store.Size(number))
	return nil
}

// answer writes the answers of the portion.
func (g *gathering) answer(ctx context.Context) error {
	for row, runs := range g.runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		count, start := int64(0), int32(0)
		for _, r := range runs {
			count += r.rows
		}
		if count > 0 {
			var err error
			if start, err = g.group(runs, count); err != nil {
				return err
			}
		}
		if count == 1 {
			count = 0
		}
		if err := g.answered(start, int32(count), g.hashes[row]); err != nil {
			return err
		}
	}
	return nil
}

// group returns where the rows of a group begin, and adds them unless they
// stand there already.
func (g *gathering) group(runs []run, count int64) (int32, error) {
	identity := int64(runs[0].chunk)<<32 + runs[0].from + 1
	if g.find(identity) {
		return g.start, nil
	}
	if err := g.begin(identity, int(count)); err != nil {
		return 0, err
	}
	if err := g.addRuns(runs); err != nil {
		return 0, err
	}
	g.remember()
	return g.start, nil
}

// addRuns adds the rows of a group.
func (g *gathering) addRuns(runs []run) error {
	if len(runs) > 1 && len(g.order) > 0 {
		return g.addMerged(runs)
	}
	for _, r := range runs {
		for r.rows > 0 {
			o, err := g.open(r.chunk, r.from)
			if err != nil {
				return err
			}
			at := int32(r.from - o.at.from)
			n := min(r.rows, o.at.rows-int64(at), mostNoted)
			rows := resize(&g.refs, int(n))
			for i := range rows {
				rows[i] = at + int32(i)
			}
			if err := g.add(o.shown, rows, 0); err != nil {
				return err
			}
			r.from, r.rows = r.from+n, r.rows-n
		}
	}
	return nil
}

// addMerged adds the rows of a group in the order of the order columns; rows
// that are alike in them in the order of the runs.
func (g *gathering) addMerged(runs []run) error {
	left := append([]run{}, runs...)
	for len(left) > 0 {
		best := 0
		var first *opened
		for i, r := range left {
			o, err := g.open(r.chunk, r.from)
			if err != nil {
				return err
			}
			if first == nil || g.before(o, r, first, left[best]) {
				best, first = i, o
			}
		}
		r := &left[best]
		row := [1]int32{int32(r.from - first.at.from)}
		if err := g.add(first.shown, row[:], 0); err != nil {
			return err
		}
		r.from++
		if r.rows--; r.rows == 0 {
			left = append(left[:best], left[best+1:]...)
		}
	}
	return nil
}

// before says whether the first row of a run comes before that of another run,
// which stands before it.
func (g *gathering) before(a *opened, r run, b *opened, s run) bool {
	for i := range g.order {
		column := g.side.spec.OrderBy[i].Column
		if c := g.order[i].compare(a.rows.Column(column), int(r.from-a.at.from), b.rows.Column(column), int(s.from-b.at.from)); c != 0 {
			return c < 0
		}
	}
	return false
}

// opened is a batch of copied rows in memory. Runs of one chunk are looked at
// from front to back as a rule, so one batch of each stays.
type opened struct {
	at    stored
	rows  arrow.RecordBatch
	shown *array.Struct // the same, as a dictionary has them
}

func (o *opened) close() {
	o.rows.Release()
	o.shown.Release()
}

// open returns the batch with a row that was copied of a chunk. Batches that
// give way to it may be among the rows to be written, which are written first.
func (g *gathering) open(chunk int, row int64) (*opened, error) {
	o := g.opened[chunk]
	if o != nil && row >= o.at.from && row < o.at.from+o.at.rows {
		return o, nil
	}
	if o != nil {
		if err := g.flushRows(); err != nil {
			return nil, err
		}
		delete(g.opened, chunk)
		o.close()
		g.held.Shrink(o.at.bytes)
		g.bytes -= o.at.bytes
	}
	p := g.copies[chunk]
	list := p.parts[0].batches
	at := list[sort.Search(len(list), func(i int) bool { return list[i].from > row })-1]
	if err := g.grow(at.bytes); err != nil {
		return nil, err
	}
	rows, err := p.store.Read(at.number)
	if err != nil {
		g.held.Shrink(at.bytes)
		g.bytes -= at.bytes
		return nil, err
	}
	o = &opened{at: at, rows: rows, shown: g.shown(rows)}
	g.opened[chunk] = o
	return o, nil
}

// shown returns stored rows as a dictionary has them.
func (g *gathering) shown(b arrow.RecordBatch) *array.Struct {
	rows := int(b.NumRows())
	var fields []arrow.ArrayData
	for _, at := range g.side.parts.in.Columns {
		fields = append(fields, b.Column(at).Data())
	}
	if g.side.spec.Matched != "" {
		bits := make([]byte, bitutil.BytesForBits(int64(rows)))
		bitutil.SetBitsTo(bits, 0, int64(rows), true)
		matched := array.NewData(arrow.FixedWidthTypes.Boolean, rows, []*memory.Buffer{nil, memory.NewBufferBytes(bits)}, nil, 0, 0)
		defer matched.Release()
		fields = append(fields, matched)
	}
	whole := array.NewData(g.rowType, rows, []*memory.Buffer{nil}, fields, 0, 0)
	defer whole.Release()
	return array.NewStructData(whole)
}
