package joiner

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// noteWriter writes the notes of one slice.
type noteWriter struct {
	*noting
	notes       *sliceNotes
	noteSchema  *arrow.Schema
	rowType     *arrow.StructType
	rowSchema   *arrow.Schema
	mostAnswers int   // that are written at a time
	rowBytes    int64 // of staging rows that are written at a time, about

	starts, counts, checks []int32 // answers to be written

	segments []batch.Segment // staging rows to be written, of structs
	pending  int             // their number
	mostRows int             // that are written at a time; 0: not yet known
	begun    map[int64]int32 // where groups begin that are among pending, by their identity
	large    map[int64]int32 // where large groups begin, which are written once
	last     int64           // the identity of the group last noted, or 0
	start    int32           // and where it begins
}

// Bounds of what is written at a time, and kept.
const (
	fewestNoted = 64        // answers in a stored batch, at least
	mostNoted   = 4096      // answers, or staging rows, in a stored batch
	mostBytes   = 256 << 10 // bytes in a stored batch of staging rows, about
	answerSize  = 3 * half
	// largeGroup is the number of rows from which on a group is written once
	// per slice and referred to. Smaller ones are written anew where they are
	// far away, so that notes are read from front to back.
	largeGroup = 64
	largeEntry = 48 // bounds the bytes of an entry of large
)

func newNoteWriter(n *noting, number int) *noteWriter {
	dt := n.side.zero.DataType().(*arrow.StructType)
	w := &noteWriter{
		noting: n, notes: &n.out.slices[number],
		noteSchema: noteFields(), rowType: dt, rowSchema: arrow.NewSchema(dt.Fields(), nil),
		begun: map[int64]int32{}, large: map[int64]int32{},
	}
	// What a slice's notes may take while they are read beside those of all others.
	share := n.limit / 4 / int64(len(n.out.slices))
	w.mostAnswers = int(min(max(share/4/answerSize, fewestNoted), mostNoted))
	w.rowBytes = min(share, mostBytes)
	return w
}

// fit sets how many staging rows are written at a time, by the bytes of one.
func (w *noteWriter) fit(size int64) {
	if w.mostRows == 0 {
		w.mostRows = int(min(max(w.rowBytes/max(size, 1), 1), mostNoted))
	}
}

// note writes down a side's answers about a batch of training rows.
func (w *noteWriter) note(m *match, refs, checks []int32) error {
	w.fit(batch.ArraySize(m.side.dictionary) / int64(m.side.dictionary.Len()))
	for i, ref := range refs {
		count, start := int32(0), int32(0)
		if m.counts != nil {
			count = m.counts[i]
		}
		if count > 1 && w.notes.one == "" && w.rule.refusesDuplicates() {
			w.notes.one, w.notes.other = m.files(i)
		}
		if ref != 0 {
			var err error
			if start, err = w.group(m, i, ref, count); err != nil {
				return err
			}
		}
		if err := w.answered(start, count, checks[i]); err != nil {
			return err
		}
	}
	return nil
}

// group returns where the rows that a training row takes begin, and adds them
// unless they stand there already.
func (w *noteWriter) group(m *match, row int, ref, count int32) (int32, error) {
	identity, single := int64(ref), [1]int32{ref - 1}
	rows := single[:]
	switch {
	case !w.rule.Kind.Adds():
		identity = 1 // nobody looks at the row
	case count > 1 && w.rule.multiplies():
		rows = m.side.groups.members[m.from[row] : m.from[row]+count]
	}
	if w.find(identity) {
		return w.start, nil
	}
	if err := w.begin(identity, len(rows)); err != nil {
		return 0, err
	}
	if err := w.add(m.side.dictionary, rows, 1); err != nil {
		return 0, err
	}
	w.remember()
	return w.start, nil
}

// find says whether a group stands where it can be referred to, and sets start.
func (w *noteWriter) find(identity int64) bool {
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

// begin sets start for a group whose rows are added next.
func (w *noteWriter) begin(identity int64, rows int) error {
	first := w.notes.rows.rows + int64(w.pending)
	if first+int64(rows) > maxRows {
		return fault.New(fault.Exhausted, "training rows refer to more than %d rows of %s, which references do not reach", int64(maxRows), w.side.spec.Name).
			WithRemedy("write the staging table with more buckets")
	}
	w.last, w.start = identity, int32(first)+1
	if rows <= largeGroup {
		return nil
	}
	if err := w.held.Grow(largeEntry); err != nil {
		return err
	}
	w.large[identity] = w.start
	return nil
}

// remember notes that the group last begun can be referred to until its rows
// are written.
func (w *noteWriter) remember() {
	if int64(w.start) > w.notes.rows.rows {
		w.begun[w.last] = w.start
	}
}

// add puts rows of a struct array, each moved by shift, among those to be
// written. The array stays as it is until they are.
func (w *noteWriter) add(source arrow.Array, rows []int32, shift int32) error {
	for len(rows) > 0 {
		n := min(len(rows), w.mostRows-w.pending)
		last := len(w.segments) - 1
		if last < 0 || w.segments[last].Values != source {
			w.segments = append(w.segments, batch.Segment{Values: source})
			last++
		}
		for _, row := range rows[:n] {
			w.segments[last].Indices = append(w.segments[last].Indices, row+shift)
		}
		rows = rows[n:]
		w.pending += n
		if w.pending == w.mostRows {
			if err := w.flushRows(); err != nil {
				return err
			}
		}
	}
	return nil
}

// answered adds an answer.
func (w *noteWriter) answered(start, count, check int32) error {
	w.starts, w.counts, w.checks = append(w.starts, start), append(w.counts, count), append(w.checks, check)
	if len(w.starts) < w.mostAnswers {
		return nil
	}
	return w.flushAnswers()
}

// flush writes what is not yet written. Identities mean nothing after it, and
// arrays that rows were added of may be released.
func (w *noteWriter) flush() error {
	if err := w.flushRows(); err != nil {
		return err
	}
	w.last = 0
	w.held.Shrink(int64(len(w.large)) * largeEntry)
	clear(w.large)
	return w.flushAnswers()
}

func (w *noteWriter) flushAnswers() error {
	if len(w.starts) == 0 {
		return nil
	}
	columns := []arrow.Array{int32Array(w.starts), int32Array(w.counts), int32Array(w.checks)}
	err := w.write(&w.notes.answers, w.noteSchema, columns, len(w.starts))
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

func (w *noteWriter) flushRows() error {
	clear(w.begun)
	if w.pending == 0 {
		return nil
	}
	if err := w.held.Grow(w.rowBytes); err != nil {
		return err
	}
	defer w.held.Shrink(w.rowBytes)
	gathered, err := batch.Gather(w.rowType, w.segments, w.side.opts.memory())
	if err != nil {
		return err
	}
	defer gathered.Release()
	if err := w.write(&w.notes.rows, w.rowSchema, columnsOf(gathered.(*array.Struct)), w.pending); err != nil {
		return err
	}
	clear(w.segments)
	w.segments, w.pending = w.segments[:0], 0
	return nil
}

// columnsOf returns the fields of a struct that does not begin within others.
func columnsOf(s *array.Struct) []arrow.Array {
	columns := make([]arrow.Array, s.NumField())
	for i := range columns {
		columns[i] = s.Field(i)
	}
	return columns
}

// write writes columns as one batch of a part.
func (w *noteWriter) write(p *storedPart, schema *arrow.Schema, columns []arrow.Array, rows int) error {
	b := array.NewRecordBatch(schema, columns, int64(rows))
	defer b.Release()
	number, err := w.out.store.Append(b)
	if err != nil {
		return err
	}
	p.add(number, int64(rows), w.out.store.Size(number))
	return nil
}

// drop gives back what the writer reserved.
func (w *noteWriter) drop() { w.held.Shrink(w.held.Held()) }
