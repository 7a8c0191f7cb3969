package joiner

import (
	"context"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// What follows is for slices that do not fit in memory, be it for one key of
// very many rows. Their staging rows are loaded in chunks, one after the other.

// reduce answers training rows that take one staging row each at most. Of each
// chunk it keeps the rows that win there; the winners among all are among
// those, and they are no more than twice the training rows.
func (n *noting) reduce(ctx context.Context, asked, rows []stored, w *noteWriter) error {
	size := n.side.parts.rowSize()
	for len(asked) > 0 {
		// Portions of training rows whose winners fit, even if all differ.
		some := upTo(asked, func(x stored) int64 { return 2 * size * x.rows }, n.limit/slicePerSide)
		if err := n.reducePortion(ctx, asked[:some], rows, w); err != nil {
			return err
		}
		asked = asked[some:]
	}
	return nil
}

func (n *noting) reducePortion(ctx context.Context, asked, rows []stored, w *noteWriter) error {
	store, err := n.side.how.Disk(n.side.spec.Name)
	if err != nil {
		return err
	}
	defer store.Release()
	winners := n.side.parts.over(store)
	err = n.chunks(ctx, rows, func(side *BuildSide, chunk []stored) error {
		wins := make([]bool, side.rows)
		err := n.match(ctx, side, asked, func(m *match, refs, _ []int32) error {
			m.win(refs, wins)
			return nil
		})
		if err != nil {
			return err
		}
		return n.keep(ctx, chunk, wins, winners)
	})
	if err != nil {
		return err
	}
	side, err := n.build(ctx, winners, winners.parts[0].batches)
	if err != nil {
		return err
	}
	defer side.Release()
	n.side.spilled.Add(store.Bytes())
	return n.answer(ctx, side, asked, w)
}

// win marks the rows that a batch's answers take. Of several it marks the
// first and the last, which tells that there are several, and which rows.
func (m *match) win(refs []int32, wins []bool) {
	for i, ref := range refs {
		if ref == 0 {
			continue
		}
		wins[ref-1] = true
		if m.counts != nil && m.counts[i] > 1 {
			rows := m.side.groups.members[m.from[i] : m.from[i]+m.counts[i]]
			wins[rows[0]], wins[rows[len(rows)-1]] = true, true
		}
	}
}

// over returns the same kind of rows, none of them yet, in another store.
func (p *Parts) over(store Store) *Parts {
	return &Parts{in: p.in, schema: p.schema, store: store, parts: make([]storedPart, 1), opts: p.opts}
}

// keep writes the rows of a chunk that are marked.
func (n *noting) keep(ctx context.Context, chunk []stored, marked []bool, to *Parts) error {
	reader, err := n.side.parts.read(ctx, chunk)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
		b := reader.RecordBatch()
		var keep []int32
		for i, is := range marked[:b.NumRows()] {
			if is {
				keep = append(keep, int32(i))
			}
		}
		marked = marked[b.NumRows():]
		if len(keep) == 0 {
			continue
		}
		kept, err := batch.Filter(b, keep, n.side.opts.memory())
		if err != nil {
			return err
		}
		number, err := to.store.Append(kept)
		kept.Release()
		if err != nil {
			return err
		}
		to.parts[0].add(number, int64(len(keep)), to.store.Size(number))
	}
	return reader.Err()
}

// chunks makes sides of staging rows, as many rows at a time as fit, in order,
// and shows each. Where a chunk does not fit, they are halved; where a single
// batch does not, memory is waited for.
func (n *noting) chunks(ctx context.Context, rows []stored, see func(side *BuildSide, chunk []stored) error) error {
	waited := false
	for len(rows) > 0 {
		some := upTo(rows, func(x stored) int64 { return x.bytes }, n.chunk)
		side, err := n.build(ctx, n.side.parts, rows[:some])
		switch {
		case err == nil:
		case fault.KindOf(err) != fault.Exhausted || waited:
			return err
		case some > 1:
			n.chunk = bytesOf(rows[:some]) / 2
			continue
		default:
			waited = true
			if none := n.side.opts.Budget.Await(ctx, n.side.spec.Name, slicePerSide*rows[0].bytes); none != nil {
				return err
			}
			continue
		}
		waited = false
		err = see(side, rows[:some])
		side.Release()
		if err != nil {
			return err
		}
		rows = rows[some:]
	}
	return nil
}

// upTo returns how many of the batches stay within a limit, at least one.
func upTo(list []stored, size func(stored) int64, limit int64) int {
	sum := int64(0)
	for i, x := range list {
		if sum += size(x); sum > limit && i > 0 {
			return i
		}
	}
	return len(list)
}

func bytesOf(list []stored) (sum int64) {
	for _, x := range list {
		sum += x.bytes
	}
	return sum
}

func countOf(list []stored) (sum int64) {
	for _, x := range list {
		sum += x.rows
	}
	return sum
}
