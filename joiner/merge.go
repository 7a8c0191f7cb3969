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

// sortedKeys is a build side whose keys are sorted: they are searched where
// they lie. It serves the strategies merge, zip and auto.
type sortedKeys struct {
	keys     keyVector
	from, to int32 // the rows that may match: all before and after are dead
	rows     int64
	how      rule.Strategy
	held     *budget.Reservation

	// With auto, an index is made once the joins' searches have jumped about
	// for long enough.
	strain atomic.Int64
	once   sync.Once
	index  atomic.Pointer[hashIndex]
}

// sortedRows says whether the keys of a build side ascend, save for dead rows
// before the first and after the last: from and to bound those that are not.
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

// group finds the rows of equal keys, which are neighbours.
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

// rowsPerStep is how many rows an index may have for each step of a search that
// jumped before it is worth making: who jumps goes on jumping.
const rowsPerStep = 4

// addStrain adds the steps of searches that jumped, and makes an index when they
// have become too many. Without memory for one there is none.
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

// mergeSearch is one join's search in sorted keys: each search goes on from where
// the last one ended, forwards or backwards, in steps that double.
type mergeSearch struct {
	*sortedKeys
	at    int32 // the first row whose key is not below the one last searched
	steps int64 // that searches took beyond the neighbours
}

// stretch is how many rows are searched before one looks whether searches jump.
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

// seekInt goes to the first row whose key is not below one. It looks at the
// row where it is and at the next before it jumps.
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

// gallop goes to the first row that is not below, doubling its steps until it
// has passed the row, and then halving what is left.
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
