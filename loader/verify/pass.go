package verify

import (
	"context"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// pass reads a cluster for a part of its keys. Only the first pass counts rows with a null key.
type pass struct {
	check      *keyCheck
	number, of uint64
	table      *keyTable
	keys       keyDigester // computes the digests of the current batch
}

// pass reads the keys of a cluster that belong to one of several passes, probes them with
// the training rows, and adds up the sums.
func (c *keyCheck) pass(ctx context.Context, of cluster, number, passes uint64) error {
	table, err := newKeyTable(c.options.Budget, c.staging.Name, c.maxKeys())
	if err != nil {
		return err
	}
	defer table.release()
	p := &pass{check: c, number: number, of: passes, table: table}
	for _, file := range of.files {
		if err := p.readFile(ctx, file); err != nil {
			return err
		}
	}
	table.freeze()
	for _, split := range of.splits {
		if err := p.probeSplit(ctx, split); err != nil {
			return err
		}
	}
	table.byKey(c.addKey)
	return nil
}

// includes reports whether a key belongs to the pass.
func (p *pass) includes(key digest) bool { return key.low%p.of == p.number }

func (p *pass) isFirst() bool { return p.number == 0 }

// readFile adds the keys of one staging file. It also checks the file's layout, unless an earlier
// pass has checked it.
func (p *pass) readFile(ctx context.Context, file int) error {
	c := p.check
	var counted []int32 // rows that pass the table's filter
	whole, err := c.read(ctx, c.staging.Name, c.source(file, 0, c.files[file].Rows), c.columns.staging, func(rows arrow.RecordBatch, first int64) (err error) {
		if !c.checked[file] {
			if err := c.layouts[file].check(rows, first); err != nil {
				return err
			}
		}
		if counted, err = c.counted(rows, counted); err != nil {
			return err
		}
		p.keys.load(rows, c.columns.stagingKey)
		for _, row := range counted {
			if err := p.addRow(rows, int(row), rowID{int32(file), first + int64(row)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.checked[file] = true
	c.layouts[file].file.Unread = c.layouts[file].file.Unread || !whole
	return nil
}

// addRow adds one staging row.
func (p *pass) addRow(rows arrow.RecordBatch, row int, id rowID) error {
	join := &p.check.join
	if p.isFirst() {
		join.Rows++
	}
	time, timed := timeAt(rows, p.check.columns.stagingTime, row)
	if !timed || p.keys.null(row) {
		if p.isFirst() {
			join.NullRows++
		}
		return nil
	}
	key, err := p.keys.digest(row)
	if err != nil || !p.includes(key) {
		return err
	}
	return p.table.add(key, time, id)
}

// timeAt returns the time of a row: 0 without a time column, false for null.
func timeAt(rows arrow.RecordBatch, column, row int) (int64, bool) {
	if column < 0 {
		return 0, true
	}
	a := rows.Column(column)
	if a.IsNull(row) {
		return 0, false
	}
	return batch.IntegerAt(a, row)
}

// probeSplit looks up the training rows of a split.
func (p *pass) probeSplit(ctx context.Context, split int) error {
	join := &p.check.join
	rows, matched := join.TrainingRows, join.Matched
	defer func() { p.check.tally.Add(split, join.TrainingRows-rows, join.Matched-matched) }()
	return p.check.readSplit(ctx, split, func(rows arrow.RecordBatch, _ int64) error {
		p.keys.load(rows, p.check.columns.trainingKey)
		for row := range int(rows.NumRows()) {
			if err := p.probeRow(rows, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// probeRow counts one training row.
func (p *pass) probeRow(rows arrow.RecordBatch, row int) error {
	join := &p.check.join
	if p.keys.null(row) {
		if p.isFirst() {
			join.TrainingRows++
			join.Missing++
			join.NullKeys++
		}
		return nil
	}
	key, err := p.keys.digest(row)
	if err != nil || !p.includes(key) {
		return err
	}
	join.TrainingRows++
	if time, timed := timeAt(rows, p.check.columns.trainingTime, row); p.check.matches(p.table.lookup(key), time, timed) {
		join.Matched++
		return nil
	}
	join.Missing++
	p.check.unmatched.offer(key, rows, p.check.columns.trainingKey, row)
	return nil
}

// matches reports whether a training row matches one of the entries of its key, and marks the
// matching entry.
func (c *keyCheck) matches(entries []keyEntry, time int64, timed bool) bool {
	if len(entries) == 0 {
		return false
	}
	entries[0].found = true
	rule := c.staging.Time
	if rule == nil {
		entries[0].match = true
		return true
	}
	if !timed {
		return false
	}
	later, _ := slices.BinarySearchFunc(entries, time, func(e keyEntry, t int64) int {
		if e.time < t || e.time == t && rule.Exact {
			return -1
		}
		return 1
	})
	oldest := time - rule.Tolerance
	if oldest > time { // the subtraction overflowed: all earlier times are within the tolerance
		oldest = math.MinInt64
	}
	if later == 0 || entries[later-1].time < oldest {
		return false
	}
	entries[later-1].match = true
	return true
}
