package verify

import (
	"cmp"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// rowID identifies a row of a staging table.
type rowID struct {
	file int32 // index of the file in the table
	row  int64 // number of the row in the file
}

func (r rowID) compare(o rowID) int {
	return cmp.Or(cmp.Compare(r.file, o.file), cmp.Compare(r.row, o.row))
}

// keyEntry is a key of a staging table and what is known about the key's rows. With a time rule,
// there is an entry for each time of a key.
type keyEntry struct {
	key    digest
	time   int64
	rows   int64
	first  rowID
	second rowID // zero if there is only one row: the zero rowID is never a second row
	found  bool  // some training row has the key; set in the key's first entry
	match  bool  // some training row matches the entry, including its time
}

// compareKey orders entries by key and time.
func (e *keyEntry) compareKey(o *keyEntry) int {
	return cmp.Or(e.key.compare(o.key), cmp.Compare(e.time, o.time))
}

// entryBytes is the memory of one entry, including one head of the table.
const entryBytes = int64(unsafe.Sizeof(keyEntry{})) + 8

// keyTable holds the keys of one pass over a cluster, and reserves their memory. Rows are
// added in order; then the table is frozen for lookups.
//
// The entries of a frozen table are sorted by key and time. heads[i] is the index of the first
// entry whose key begins with the bits of i, so that a lookup usually scans only one or two
// entries.
type keyTable struct {
	entries    []keyEntry
	heads      []int
	shift      int // number of bits by which a key's high half is shifted to get its index in heads
	merged     int // number of entries at the start that are sorted and distinct
	capacity   int // number of entries for which memory is reserved
	maxEntries int // maximum number of entries, however large the budget is
	held       *budget.Reservation
}

// newKeyTable returns an empty table. Its capacity grows when rows are added.
func newKeyTable(b *budget.Budget, table string, maxEntries int) (*keyTable, error) {
	t := &keyTable{capacity: firstCapacity, maxEntries: maxEntries}
	var err error
	if t.held, err = b.Reserve("the keys of staging table "+table, int64(t.capacity)*entryBytes); err != nil {
		return nil, err
	}
	t.entries = make([]keyEntry, 0, t.capacity)
	return t, nil
}

func (t *keyTable) release() {
	t.held.Release()
	t.entries, t.heads = nil, nil
}

// add adds a row.
func (t *keyTable) add(key digest, time int64, row rowID) error {
	if len(t.entries) == t.capacity {
		t.merge()
		if len(t.entries) > t.capacity/2 {
			if err := t.grow(); err != nil {
				return err
			}
		}
	}
	t.entries = append(t.entries, keyEntry{key: key, time: time, rows: 1, first: row})
	return nil
}

// grow doubles the capacity. While entries are copied, the memory of both copies is reserved.
func (t *keyTable) grow() error {
	capacity := 2 * t.capacity
	if capacity > t.maxEntries {
		return fault.New(fault.Exhausted, "cannot hold %d keys at once", capacity)
	}
	if err := t.held.Grow(int64(capacity) * entryBytes); err != nil {
		return err
	}
	entries := make([]keyEntry, len(t.entries), capacity)
	copy(entries, t.entries)
	t.held.Shrink(int64(t.capacity) * entryBytes)
	t.entries, t.capacity = entries, capacity
	return nil
}

// merge sorts the entries, and merges entries that have the same key and time.
func (t *keyTable) merge() {
	if t.merged == len(t.entries) {
		return
	}
	slices.SortFunc(t.entries, func(a, b keyEntry) int { return cmp.Or(a.compareKey(&b), a.first.compare(b.first)) })
	out := t.entries[:0]
	for _, e := range t.entries {
		if last := len(out) - 1; last >= 0 && out[last].compareKey(&e) == 0 {
			if out[last].rows == 1 {
				out[last].second = e.first
			}
			out[last].rows += e.rows
			continue
		}
		out = append(out, e)
	}
	t.entries, t.merged = out, len(out)
}

// freeze prepares the table for lookups; no row is added after it.
func (t *keyTable) freeze() {
	t.merge()
	width := max(bits.Len(uint(len(t.entries)))-1, 0) // gives at most as many heads as entries
	t.shift = 64 - width
	t.heads = make([]int, 1<<width+1)
	at := 0
	for i := range 1 << width {
		for at < len(t.entries) && t.head(t.entries[at].key) < i {
			at++
		}
		t.heads[i] = at
	}
	t.heads[1<<width] = len(t.entries)
}

func (t *keyTable) head(key digest) int { return int(key.high >> t.shift) }

// lookup returns the entries of a key, ordered by time. The result is empty if the table does not
// have the key.
func (t *keyTable) lookup(key digest) []keyEntry {
	head := t.head(key)
	near := t.entries[t.heads[head]:t.heads[head+1]]
	from := 0
	for from < len(near) && near[from].key.compare(key) < 0 {
		from++
	}
	return near[from : from+sameKey(near[from:], key)]
}

// byKey calls a function with the entries of each key.
func (t *keyTable) byKey(do func([]keyEntry)) {
	for rest := t.entries; len(rest) > 0; {
		n := sameKey(rest, rest[0].key)
		do(rest[:n])
		rest = rest[n:]
	}
}

// sameKey returns how many entries at the beginning have the same key.
func sameKey(entries []keyEntry, key digest) int {
	n := 0
	for n < len(entries) && entries[n].key == key {
		n++
	}
	return n
}
