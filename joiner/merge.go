package joiner

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner/rule"
)

// sortedKeys is the index of a build side with sorted keys, which are searched in place. It serves
// the strategies merge, zip, auto and broadcast.
type sortedKeys struct {
	keys     keyVector
	from, to int32 // the rows that can match: all before and after are dead
	rows     int64
	how      rule.Strategy
	held     *budget.Reservation

	// With auto, a hash index is built once searches have jumped often enough.
	strain atomic.Int64
	once   sync.Once
	index  atomic.Pointer[hashIndex]
}

// sortedRows reports whether the keys of a build side ascend, except for dead rows at
// either end; from and to bound the others.
func sortedRows(keys keyVector, dead []bool, rows int32) (from, to int32, ok bool) {
	from, to = 0, rows
	for from < to && dead != nil && dead[from] {
		from++
	}
	for from < to && dead != nil && dead[to-1] {
		to--
	}
	if dead == nil && keys.ends == nil {
		return from, to, slices.IsSorted(keys.ints)
	}
	for row := from + 1; row < to; row++ {
		if dead != nil && dead[row] || keys.compare(row-1, row) > 0 {
			return 0, 0, false
		}
	}
	return from, to, true
}

// compare compares the keys of two rows.
func (v keyVector) compare(a, b int32) int {
	if v.ends != nil {
		return bytes.Compare(v.key(a), v.key(b))
	}
	switch {
	case v.ints[a] < v.ints[b]:
		return -1
	case v.ints[a] > v.ints[b]:
		return 1
	default:
		return 0
	}
}

// group groups rows of equal keys, which are adjacent.
func (m *sortedKeys) group(ctx context.Context, repeats *groupBuilder) error {
	first := m.from
	for row := m.from + 1; row < m.to; row++ {
		if row%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if m.keys.compare(first, row) != 0 {
			first = row
		} else if err := repeats.addRepeat(row, first); err != nil {
			return err
		}
	}
	return nil
}

func (m *sortedKeys) newSearch() search {
	s := &mergeSearch{sortedKeys: m, at: m.from}
	if m.how.Zips() {
		return &zipSearch{s}
	}
	return s
}

func (m *sortedKeys) strategy() string {
	switch {
	case m.how.Zips():
		return "zip"
	case m.index.Load() != nil:
		return "index"
	default:
		return "merge"
	}
}

func (m *sortedKeys) release() { m.index.Store(nil) }

// rowsPerStep decides when an index is worth building: once the searches have taken more extra
// steps than the build side's rows divided by rowsPerStep, the training keys are assumed to be
// unsorted.
const rowsPerStep = 4

// addStrain adds the steps of searches that jumped, and builds an index when there are
// too many, unless the budget has no room for it.
func (m *sortedKeys) addStrain(steps int64) {
	if !m.how.FallsBack() || m.strain.Add(steps) <= m.rows/rowsPerStep {
		return
	}
	m.once.Do(func() {
		if m.held.Grow(slotsFor(m.rows)*half) != nil {
			return
		}
		x := newHashIndex(m.keys, m.rows)
		for row := m.from; row < m.to; row++ {
			x.add(row)
		}
		m.index.Store(x)
	})
}

// mergeSearch is one join's search of sorted keys: each search starts where the last one
// ended, and gallops forwards or backwards.
type mergeSearch struct {
	*sortedKeys
	at    int32 // the first row whose key is not below the last key searched for
	steps int64 // steps of searches beyond adjacent rows
}

// stretch is the number of rows between two checks for an index.
const stretch = 512

func (m *mergeSearch) lookup(_ context.Context, keys *Keys, refs []int32) error {
	for from := 0; from < keys.rows; from += stretch {
		to := min(from+stretch, keys.rows)
		m.lookupStretch(keys.encoded.slice(from, to), refs[from:to])
	}
	return nil
}

func (m *mergeSearch) lookupStretch(wanted keyVector, refs []int32) {
	if x := m.index.Load(); x != nil {
		x.lookupAll(wanted, refs)
		return
	}
	m.steps = 0
	if wanted.ends == nil {
		m.lookupInts(wanted.ints, refs)
	} else {
		m.lookupBytes(wanted, refs)
	}
	m.addStrain(m.steps)
}

func (m *mergeSearch) lookupInts(wanted []int64, refs []int32) {
	keys := m.keys.ints[:m.to]
	ref, refs := int32(0), refs[:len(wanted)]
	for i, key := range wanted {
		if i == 0 || key != wanted[i-1] {
			m.seekInt(keys, key)
			ref = 0
			if int(m.at) < len(keys) && keys[m.at] == key {
				ref = m.at + 1
			}
		}
		refs[i] = ref
	}
}

// seekInt goes to the first row whose key is at least key. It tries the current row
// and the next one before it gallops.
func (m *mergeSearch) seekInt(keys []int64, key int64) {
	if int(m.at) < len(keys) && keys[m.at] < key {
		if m.at++; int(m.at) == len(keys) || keys[m.at] >= key {
			return
		}
	} else if m.at == m.from || keys[m.at-1] < key {
		return
	}
	m.gallop(func(row int32) bool { return keys[row] < key })
}

func (m *mergeSearch) lookupBytes(wanted keyVector, refs []int32) {
	ref, before := int32(0), []byte(nil)
	for i := range refs {
		key := wanted.key(int32(i))
		if i == 0 || !bytes.Equal(key, before) {
			m.seekBytes(key)
			ref, before = 0, key
			if m.at < m.to && bytes.Equal(m.keys.key(m.at), key) {
				ref = m.at + 1
			}
		}
		refs[i] = ref
	}
}

func (m *mergeSearch) seekBytes(key []byte) {
	below := func(row int32) bool { return bytes.Compare(m.keys.key(row), key) < 0 }
	if m.at < m.to && below(m.at) {
		if m.at++; m.at == m.to || !below(m.at) {
			return
		}
	} else if m.at == m.from || below(m.at-1) {
		return
	}
	m.gallop(below)
}

// gallop goes to the first row that is not below, first in steps that double and then by
// binary search.
func (m *mergeSearch) gallop(below func(row int32) bool) {
	low, high := m.at, m.at // rows before low are below; high is not, or is the end
	if m.at < m.to && below(m.at) {
		for step := int32(1); high < m.to && below(high); step *= 2 {
			low = high + 1
			high = min(m.to, high+min(step, m.to-high))
			m.steps++
		}
	} else {
		for step := int32(1); low > m.from && !below(low-1); step *= 2 {
			high = low - 1
			low = max(m.from, low-min(step, low-m.from))
			m.steps++
		}
	}
	for low < high {
		if middle := low + (high-low)/2; below(middle) {
			low = middle + 1
		} else {
			high = middle
		}
		m.steps++
	}
	m.at = low
}
