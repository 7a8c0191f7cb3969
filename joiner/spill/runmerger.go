package spill

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/joiner"
)

// runMerger combines the runs of training rows into groups of the log. The start of its first run
// identifies a group. For each portion, one batch of copied rows is in memory; one is enough, since
// the runs of a portion are usually read sequentially.
type runMerger struct {
	*runCollector
	order *joiner.RowOrder // nil: runs stay in the order of their portions
	open  map[int]*copiedRows
	at    []int32 // scratch
}

// copiedRows is a batch of copied rows in memory.
type copiedRows struct {
	at    storedBatch
	rows  arrow.RecordBatch
	shown *array.Struct // the same rows as fields of a dictionary
}

func newRunMerger(c *runCollector) (*runMerger, error) {
	m := &runMerger{runCollector: c, open: map[int]*copiedRows{}}
	sliced := c.pass.sliced
	if len(sliced.spec.OrderBy) == 0 {
		return m, nil
	}
	var err error
	m.order, err = joiner.NewRowOrder(sliced.parts.schema, sliced.spec.OrderBy)
	return m, err
}

// release releases the batches in memory.
func (m *runMerger) release() {
	for portion := range m.open {
		m.releaseBatch(portion)
	}
}

// groupOf returns the start of the group with the rows of a training row's runs. If the group does
// not exist, groupOf adds it.
func (m *runMerger) groupOf(runs []run, count int64) (int32, error) {
	identity := int64(runs[0].portion)<<32 + runs[0].from + 1
	if m.findGroup(identity) {
		return m.start, nil
	}
	if err := m.beginGroup(identity, int(count)); err != nil {
		return 0, err
	}
	add := m.addRuns
	if len(runs) > 1 && m.order != nil {
		add = m.addMerged
	}
	if err := add(runs); err != nil {
		return 0, err
	}
	m.endGroup()
	return m.start, nil
}

// addRuns adds the rows of runs, run by run.
func (m *runMerger) addRuns(runs []run) error {
	for _, r := range runs {
		for r.rows > 0 {
			x, err := m.batchWith(r.portion, r.from)
			if err != nil {
				return err
			}
			at := int32(r.from - x.at.from)
			n := min(r.rows, x.at.rows-int64(at), maxStored)
			m.at = resize(m.at, int(n))
			for i := range m.at {
				m.at[i] = at + int32(i)
			}
			if err := m.addRows(x.shown, m.at, 0); err != nil {
				return err
			}
			r.from, r.rows = r.from+n, r.rows-n
		}
	}
	return nil
}

// addMerged adds the rows of runs, merged by the order columns. Rows that tie stay in the order of
// their runs.
func (m *runMerger) addMerged(runs []run) error {
	left := slices.Clone(runs)
	for len(left) > 0 {
		best := 0
		var first *copiedRows
		for i, r := range left {
			x, err := m.batchWith(r.portion, r.from)
			if err != nil {
				return err
			}
			if first == nil || m.before(x, r, first, left[best]) {
				best, first = i, x
			}
		}
		r := &left[best]
		row := [1]int32{int32(r.from - first.at.from)}
		if err := m.addRows(first.shown, row[:], 0); err != nil {
			return err
		}
		r.from++
		if r.rows--; r.rows == 0 {
			left = slices.Delete(left, best, best+1)
		}
	}
	return nil
}

// before reports whether the first row of run r precedes the first row of run s. It returns false
// for a tie.
func (m *runMerger) before(a *copiedRows, r run, b *copiedRows, s run) bool {
	return m.order.Compare(a.rows, int(r.from-a.at.from), b.rows, int(s.from-b.at.from)) < 0
}

// batchWith returns the batch that has a given row copied from a portion. The batch replaces the
// portion's previous batch in memory. Added rows may refer to the previous batch, so they are
// written first.
func (m *runMerger) batchWith(portion int, row int64) (*copiedRows, error) {
	if x := m.open[portion]; x != nil {
		if row >= x.at.from && row < x.at.from+x.at.rows {
			return x, nil
		}
		if err := m.flushRows(); err != nil {
			return nil, err
		}
		m.releaseBatch(portion)
	}
	copied := m.copies[portion]
	i, _ := copied.parts[0].batches.find(row)
	at := copied.parts[0].batches[i]
	if err := m.reserve(at.bytes); err != nil {
		return nil, err
	}
	rows, err := copied.store.Read(at.number)
	if err != nil {
		m.unreserve(at.bytes)
		return nil, err
	}
	x := &copiedRows{at: at, rows: rows, shown: m.dictionaryRows(rows)}
	m.open[portion] = x
	return x, nil
}

func (m *runMerger) releaseBatch(portion int) {
	x := m.open[portion]
	delete(m.open, portion)
	x.rows.Release()
	x.shown.Release()
	m.unreserve(x.at.bytes)
}
