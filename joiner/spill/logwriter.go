package spill

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// logWriter writes the log of one slice.
//
// Staging rows are written in groups. A group has the matches of one training row, and all training
// rows with the same matches share it. A group has an identity above 0, which is unique among the
// groups of one source of rows. Training rows refer to an existing group as long as its rows wait
// to be written or, if the group is large, as long as the source stays the same. After that, the
// group is written again, so that the log can be read sequentially.
type logWriter struct {
	pass       *matchPass
	log        *sliceLog
	rowType    *arrow.StructType
	rowSchema  *arrow.Schema
	maxEntries int   // entries in a stored batch
	maxBytes   int64 // approximate bytes of staging rows in a stored batch
	maxRows    int   // staging rows in a stored batch; 0: not yet known

	// Entries that are not yet written.
	starts, counts, checks []int32
	// Staging rows that are not yet written, as structs, and their number.
	segments []batch.Segment
	waiting  int

	begun map[int64]int32 // starts of groups that are not yet written, by identity
	large map[int64]int32 // starts of the large groups of the source, by identity
	last  int64           // the identity of the last group, or 0
	start int32           // the start of the last group
}

// Bounds of stored batches and of groups.
const (
	minEntries = 64        // minimum number of entries in a stored batch
	maxStored  = 4096      // maximum number of entries, or staging rows, in a stored batch
	maxBytes   = 256 << 10 // approximate maximum bytes of staging rows in a stored batch
	// largeGroup is the number of rows above which a group is large, so that it is written only
	// once per source.
	largeGroup = 64
	largeEntry = 48 // upper bound of the memory of an entry in logWriter.large
)

func newLogWriter(p *matchPass, number int) *logWriter {
	dt := p.sliced.row0.DataType().(*arrow.StructType)
	w := &logWriter{
		pass: p, log: &p.log.slices[number],
		rowType: dt, rowSchema: arrow.NewSchema(dt.Fields(), nil),
		begun: map[int64]int32{}, large: map[int64]int32{},
	}
	// The share of the working memory that one slice's log may use while the logs of all slices are
	// read.
	share := p.working / 4 / int64(len(p.log.slices))
	w.maxEntries = int(min(max(share/4/entrySize, minEntries), maxStored))
	w.maxBytes = min(share, maxBytes)
	return w
}

// release releases the writer's reservation.
func (w *logWriter) release() { w.pass.held.Shrink(w.pass.held.Held()) }

// setRowSize sets the number of staging rows in a stored batch, given the bytes of one row.
func (w *logWriter) setRowSize(bytes int64) {
	w.maxRows = int(min(max(w.maxBytes/max(bytes, 1), 1), maxStored))
}

// addMatches adds the entries of a batch of training rows.
func (w *logWriter) addMatches(f *found) error {
	if w.maxRows == 0 {
		w.setRowSize(batch.ArraySize(f.Dictionary) / int64(f.Dictionary.Len()))
	}
	for i, ref := range f.refs {
		count, start := f.count(i), int32(0)
		if w.log.one == "" && (count < 0 || count > 1 && w.pass.rule.RefusesDuplicates()) {
			w.log.one, w.log.other = f.Files(i)
		}
		if ref != 0 {
			var err error
			if start, err = w.groupOf(f, i); err != nil {
				return err
			}
		}
		if err := w.addEntry(start, count, f.checks[i]); err != nil {
			return err
		}
	}
	return nil
}

// groupOf returns the start of the group of staging rows that match a training row. If the group
// does not exist, groupOf adds it.
func (w *logWriter) groupOf(f *found, row int) (int32, error) {
	ref := f.refs[row]
	identity, single := int64(ref), [1]int32{ref - 1}
	rows := single[:]
	switch {
	case !w.pass.rule.Kind.Adds():
		identity = 1 // the staging rows are never read, so one group is enough
	case f.count(row) > 1 && w.pass.rule.Multiplies():
		rows = f.Members(row)
	}
	if w.findGroup(identity) {
		return w.start, nil
	}
	if err := w.beginGroup(identity, len(rows)); err != nil {
		return 0, err
	}
	if err := w.addRows(f.Dictionary, rows, 1); err != nil {
		return 0, err
	}
	w.endGroup()
	return w.start, nil
}

// findGroup reports whether training rows can refer to a group that exists. If so, it sets start.
func (w *logWriter) findGroup(identity int64) bool {
	if w.last == identity {
		return true
	}
	start, ok := w.begun[identity]
	if !ok {
		start, ok = w.large[identity]
	}
	if ok {
		w.last, w.start = identity, start
	}
	return ok
}

// beginGroup sets start for a new group. The caller then adds the rows of the group.
func (w *logWriter) beginGroup(identity int64, rows int) error {
	first := w.log.rows.rows + int64(w.waiting)
	if first+int64(rows) > joiner.MaxRows {
		return fault.New(fault.Exhausted, "training rows refer to more than %d rows of %s, more than int32 references can address",
			int64(joiner.MaxRows), w.pass.sliced.spec.Name).
			WithRemedy("write the staging table with more buckets")
	}
	w.last, w.start = identity, int32(first)+1
	if rows <= largeGroup {
		return nil
	}
	if err := w.pass.held.Grow(largeEntry); err != nil {
		return err
	}
	w.large[identity] = w.start
	return nil
}

// endGroup ends the group that beginGroup began. Training rows can refer to it until its rows are
// written.
func (w *logWriter) endGroup() {
	if int64(w.start) > w.log.rows.rows {
		w.begun[w.last] = w.start
	}
}

// addRows adds rows of a struct array to the rows that wait to be written. It adds shift to each
// row number. The array must not change before the rows are written.
func (w *logWriter) addRows(source arrow.Array, rows []int32, shift int32) error {
	for len(rows) > 0 {
		n := min(len(rows), w.maxRows-w.waiting)
		last := len(w.segments) - 1
		if last < 0 || w.segments[last].Values != source {
			w.segments = append(w.segments, batch.Segment{Values: source})
			last++
		}
		for _, row := range rows[:n] {
			w.segments[last].Indices = append(w.segments[last].Indices, row+shift)
		}
		rows = rows[n:]
		w.waiting += n
		if w.waiting == w.maxRows {
			if err := w.flushRows(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEntry adds the entry of a training row.
func (w *logWriter) addEntry(start, count, check int32) error {
	w.starts, w.counts, w.checks = append(w.starts, start), append(w.counts, count), append(w.checks, check)
	if len(w.starts) < w.maxEntries {
		return nil
	}
	return w.flushEntries()
}

// flush writes everything that is not yet written. It must be called before the source of rows
// changes, because identities then become invalid and the arrays of added rows may be released.
func (w *logWriter) flush() error {
	if err := w.flushRows(); err != nil {
		return err
	}
	w.last = 0
	w.pass.held.Shrink(int64(len(w.large)) * largeEntry)
	clear(w.large)
	return w.flushEntries()
}

func (w *logWriter) flushEntries() error {
	if len(w.starts) == 0 {
		return nil
	}
	columns := []arrow.Array{int32Array(w.starts), int32Array(w.counts), int32Array(w.checks)}
	err := w.write(&w.log.entries, entrySchema(), columns, len(w.starts))
	for _, c := range columns {
		c.Release()
	}
	w.starts, w.counts, w.checks = w.starts[:0], w.counts[:0], w.checks[:0]
	return err
}

// int32Array returns an array that borrows values.
func int32Array(values []int32) arrow.Array {
	d := array.NewData(arrow.PrimitiveTypes.Int32, len(values),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(values))}, nil, 0, 0)
	defer d.Release()
	return array.NewInt32Data(d)
}

func (w *logWriter) flushRows() error {
	clear(w.begun)
	if w.waiting == 0 {
		return nil
	}
	g := batch.NewGatherer(w.pass.sliced.opts.allocator())
	defer g.Release()
	bytes, err := g.Size(w.rowType, w.segments)
	if err != nil {
		return err
	}
	if err := w.pass.held.Grow(bytes); err != nil {
		return err
	}
	defer w.pass.held.Shrink(bytes)
	gathered, err := g.Gather(w.rowType, w.segments)
	if err != nil {
		return err
	}
	defer gathered.Release()
	if err := w.write(&w.log.rows, w.rowSchema, fieldsOf(gathered.(*array.Struct)), w.waiting); err != nil {
		return err
	}
	clear(w.segments)
	w.segments, w.waiting = w.segments[:0], 0
	return nil
}

// fieldsOf returns the fields of a struct, which has no offset.
func fieldsOf(s *array.Struct) []arrow.Array {
	columns := make([]arrow.Array, s.NumField())
	for i := range columns {
		columns[i] = s.Field(i)
	}
	return columns
}

// write writes columns as one batch, and adds the batch to a list.
func (w *logWriter) write(to *batchList, schema *arrow.Schema, columns []arrow.Array, rows int) error {
	b := array.NewRecordBatch(schema, columns, int64(rows))
	defer b.Release()
	return to.append(w.pass.log.store, b)
}
