package joiner

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// notes is what the slices of a side answer about the training rows of one
// join: on disk, slice by slice, in the order of the training rows.
type notes struct {
	side   *Sliced
	rule   Rule
	store  Store
	slices []sliceNotes
}

// sliceNotes is what one slice answers.
type sliceNotes struct {
	answers storedPart // one row for each training row of the slice, see noteFields
	rows    storedPart // the staging rows that answers refer to, as a dictionary has them
	// The files of two of the several staging rows of the first training row
	// that has several, where that is an error.
	one, other string
}

// noteFields are the columns of an answer: the first of its staging rows among
// the slice's rows, counted from 1, or 0 for none; how many there are, where
// they are several, else 0; and bits of the key's hash, to tell whether the
// training rows come as they came before.
func noteFields() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "start", Type: arrow.PrimitiveTypes.Int32},
		{Name: "count", Type: arrow.PrimitiveTypes.Int32},
		{Name: "check", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
}

// noting makes notes.
type noting struct {
	side    *Sliced
	rule    Rule
	out     *notes
	asked   *Parts // the training rows' keys and times
	encoder *encoder
	clock   *timeColumn // nil if the rule has no time
	limit   int64       // working memory
	chunk   int64       // bytes of staging rows that are loaded at a time, of a slice that does not fit
	held    *budget.Reservation
	refs    []int32
	slices  []int32
	checks  []int32
}

// note reads the keys of the training rows of a join and asks every slice
// about its own. Whoever gets notes releases their store.
func (s *Sliced) note(ctx context.Context, training Input, rule Rule) (*notes, error) {
	held, err := s.opts.Budget.Reserve(s.spec.Name, 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	n := &noting{side: s, rule: rule, held: held, limit: s.how.memory(s.opts.Budget)}
	n.chunk = n.limit / slicePerSide
	if err := n.ask(ctx, training); err != nil {
		return nil, err
	}
	defer n.asked.Release()
	store, err := s.how.Disk(s.spec.Name)
	if err != nil {
		return nil, err
	}
	n.out = &notes{side: s, rule: rule, store: store, slices: make([]sliceNotes, len(s.parts.parts))}
	for i := range n.out.slices {
		if err := n.slice(ctx, i); err != nil {
			store.Release()
			return nil, err
		}
	}
	s.spilled.Add(n.asked.Bytes() + store.Bytes())
	return n.out, nil
}

// ask reads the training rows' keys and times, and writes them by slice.
func (n *noting) ask(ctx context.Context, training Input) error {
	size := n.side.parts.rowSize()
	d := &dividing{in: training, mostRows: max(n.limit/slicePerSide/(2*size), fewestNoted)}
	timeAt := -1
	if n.rule.Time != nil && len(training.Columns) > 0 {
		timeAt = training.Columns[0]
	}
	d.begin = func(schema *arrow.Schema) error {
		_, types, err := keyFields(schema, training.Key)
		if err != nil {
			return err
		}
		d.at = slices.Clone(training.Key)
		n.encoder = newEncoder(types)
		if n.rule.Time != nil {
			d.at = append(d.at, timeAt)
			if n.clock, err = newTimeColumn(schema, timeAt); err != nil {
				return err
			}
		}
		d.at = slices.Compact(slices.Sorted(slices.Values(d.at)))
		return nil
	}
	parts := len(n.side.parts.parts)
	d.of = func(b arrow.RecordBatch, keys []arrow.Array, to []int32) error {
		slice(n.encoder.encode(keys), parts, to, nil)
		if n.clock != nil {
			n.clock.load(b.Column(n.clock.at))
			without(n.clock.times.null, to)
		}
		return nil
	}
	var err error
	if n.asked, err = d.divide(ctx, parts, n.side.opts, n.side.how); err != nil {
		return err
	}
	if n.clock != nil {
		n.clock.at = slices.Index(d.at, timeAt)
	}
	n.asked.in.Key = slices.Clone(training.Key)
	for i, at := range training.Key {
		n.asked.in.Key[i] = slices.Index(d.at, at)
	}
	return nil
}

// slice makes the notes of one slice.
func (n *noting) slice(ctx context.Context, number int) error {
	asked, rows := &n.asked.parts[number], &n.side.parts.parts[number]
	if asked.rows == 0 || rows.rows == 0 {
		return ctx.Err() // nobody asks, or there is nothing to answer
	}
	w := newNoteWriter(n, number)
	defer w.drop()
	if rows.bytes <= n.limit/slicePerSide*2 {
		side, err := n.build(ctx, n.side.parts, rows.batches)
		if err == nil {
			defer side.Release()
			return n.answer(ctx, side, asked.batches, w)
		}
		if fault.KindOf(err) != fault.Exhausted {
			return err
		}
	}
	if n.rule.multiplies() {
		return n.gatherAll(ctx, asked.batches, rows.batches, w)
	}
	return n.reduce(ctx, asked.batches, rows.batches, w)
}

// build makes a side of some stored staging rows.
func (n *noting) build(ctx context.Context, parts *Parts, rows []stored) (*BuildSide, error) {
	return build(ctx, parts.input(rows), n.side.spec, n.side.opts, maxRows)
}

// answer asks a side about training rows, and writes its answers.
func (n *noting) answer(ctx context.Context, side *BuildSide, asked []stored, w *noteWriter) error {
	err := n.match(ctx, side, asked, func(m *match, refs, checks []int32) error { return w.note(m, refs, checks) })
	if err != nil {
		return err
	}
	return w.flush()
}

// match asks a side about training rows, and calls see after each batch of
// them, with what it answers and with bits of the keys' hashes.
func (n *noting) match(ctx context.Context, side *BuildSide, asked []stored, see func(m *match, refs, checks []int32) error) error {
	asking, err := side.ask(ctx, n.rule)
	if err != nil {
		return err
	}
	defer asking.close()
	reader, err := n.asked.read(ctx, asked)
	if err != nil {
		return err
	}
	defer reader.Release()
	keys := make([]arrow.Array, len(n.asked.in.Key))
	before := int64(0)
	for reader.Next() {
		b := reader.RecordBatch()
		for i, at := range n.asked.in.Key {
			keys[i] = b.Column(at)
		}
		rows := int(b.NumRows())
		q := question{record: b, before: before, rows: rows, arrays: keys, keys: n.encoder.encode(keys)}
		if n.clock != nil {
			n.clock.load(b.Column(n.clock.at))
			q.times = n.clock.times
		}
		refs, checks := resize(&n.refs, rows), resize(&n.checks, rows)
		slice(q.keys, 1, resize(&n.slices, rows), checks)
		if _, err := asking.match(&q, refs); err != nil {
			return err
		}
		if err := see(asking.(*match), refs, checks); err != nil {
			return err
		}
		before += int64(rows)
	}
	return reader.Err()
}
