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
// Staging rows are written in groups: those that one training row matches,
// which training rows of one key have in common. A group has an identity, a
// number above 0 that is its own among those of one source of rows. While the
// rows of a group wait to be written, or if they are very many for as long as
// the source is the same, the next training row refers to them where they are;
// after that they are written anew, so that a log is read from front to back.
type logWriter struct {
	pass        *matchPass
	log         *sliceLog
	rowType     *arrow.StructType
	rowSchema   *arrow.Schema
	mostEntries int   // that are written at a time
	mostBytes   int64 // of staging rows that are written at a time, about
	mostRows    int   // of them; 0: not yet known

	// Entries to be written.
	starts, counts, checks []int32
	// Staging rows to be written, of structs, and their number.
	segments []batch.Segment
	waiting  int

	begun map[int64]int32 // by identity, where groups begin that wait
	large map[int64]int32 // and where large groups begin
	last  int64           // the identity of the group last referred to, or 0
	start int32           // and where it begins
}

// Bounds of what is written at a time, and kept.
const (
	fewestEntries = 64        // in a stored batch, at least
	mostStored    = 4096      // entries, or staging rows, in a stored batch
	mostBytes     = 256 << 10 // bytes in a stored batch of staging rows, about
	// largeGroup is the number of rows above which a group is written once per
	// source.
	largeGroup = 64
	largeEntry = 48 // bounds the bytes of an entry of large
)

func newLogWriter(p *matchPass, number int) *logWriter {
	dt := p.sliced.row0.DataType().(*arrow.StructType)
	w := &logWriter{
		pass: p, log: &p.log.slices[number],
		rowType: dt, rowSchema: arrow.NewSchema(dt.Fields(), nil),
		begun: map[int64]int32{}, large: map[int64]int32{},
	}
	// What a slice's log may take while it is read beside those of all others.
	share := p.working / 4 / int64(len(p.log.slices))
	w.mostEntries = int(min(max(share/4/entrySize, fewestEntries), mostStored))
	w.mostBytes = min(share, mostBytes)
	return w
}

// close gives back what the writer reserved.
func (w *logWriter) close() { w.pass.held.Shrink(w.pass.held.Held()) }

// setRowSize decides how many staging rows are written at a time, by the bytes
// of one.
func (w *logWriter) setRowSize(bytes int64) {
	w.mostRows = int(min(max(w.mostBytes/max(bytes, 1), 1), mostStored))
}

// addMatches adds the entries of a batch of training rows.
func (w *logWriter) addMatches(f *found) error {
	if w.mostRows == 0 {
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

// groupOf returns where the staging rows begin that a training row takes, and
// adds them unless they stand there already.
func (w *logWriter) groupOf(f *found, row int) (int32, error) {
	ref := f.refs[row]
	identity, single := int64(ref), [1]int32{ref - 1}
	rows := single[:]
	switch {
	case !w.pass.rule.Kind.Adds():
		identity = 1 // nobody looks at the row
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

// findGroup says whether a group stands where it can be referred to, and sets
// start.
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

// beginGroup sets start for a group whose rows are added next.
func (w *logWriter) beginGroup(identity int64, rows int) error {
	first := w.log.rows.rows + int64(w.waiting)
	if first+int64(rows) > joiner.MaxRows {
		return fault.New(fault.Exhausted, "training rows refer to more than %d rows of %s, which references do not reach",
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

// endGroup notes that the group last begun can be referred to until its rows
// are written.
func (w *logWriter) endGroup() {
	if int64(w.start) > w.log.rows.rows {
		w.begun[w.last] = w.start
	}
}

// addRows puts rows of a struct array, each moved by shift, among those to be
// written. The array stays as it is until they are.
func (w *logWriter) addRows(source arrow.Array, rows []int32, shift int32) error {
	for len(rows) > 0 {
		n := min(len(rows), w.mostRows-w.waiting)
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
		if w.waiting == w.mostRows {
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
	if len(w.starts) < w.mostEntries {
		return nil
	}
	return w.flushEntries()
}

// flush writes what is not yet written, before the source of rows changes:
// identities mean nothing after it, and arrays that rows were added of may be
// released.
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

// int32Array returns values as an array that borrows them.
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
	if err := w.pass.held.Grow(w.mostBytes); err != nil {
		return err
	}
	defer w.pass.held.Shrink(w.mostBytes)
	gathered, err := batch.Gather(w.rowType, w.segments, w.pass.sliced.opts.allocator())
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

// fieldsOf returns the fields of a struct that does not begin within others.
func fieldsOf(s *array.Struct) []arrow.Array {
	columns := make([]arrow.Array, s.NumField())
	for i := range columns {
		columns[i] = s.Field(i)
	}
	return columns
}

// write writes columns as one batch of a list.
func (w *logWriter) write(to *batchList, schema *arrow.Schema, columns []arrow.Array, rows int) error {
	b := array.NewRecordBatch(schema, columns, int64(rows))
	defer b.Release()
	return to.append(w.pass.log.store, b)
}
