package sortkey

import (
	"cmp"
	"slices"
)

// SortEntry identifies a row of one of several batches.
type SortEntry struct {
	Chunk      uint64 // the first chunk of the row's key
	Batch, Row int32
}

// EntryBytes is the size of a SortEntry in memory.
const EntryBytes = 16

// Sort sorts rows by their keys, given the RowKeys of each batch. Entries must be passed in the
// order of Batch and Row; entries with equal keys then stay in that order. The caller sets Chunk,
// which is arbitrary afterwards. scratch must be at least as long as entries.
func Sort(entries, scratch []SortEntry, keys []*RowKeys) {
	if len(entries) > 1 {
		s := &sorting{keys: keys, scratch: scratch, columns: len(keys[entries[0].Batch].columns)}
		s.sort(entries, keyPlace{})
	}
}

// keyPlace is a chunk's place in a key.
type keyPlace struct{ column, level int }

type sorting struct {
	keys    []*RowKeys
	scratch []SortEntry
	columns int
}

// sort sorts entries. Their chunks before the place at must be equal, and their Chunk must be the
// chunk at that place.
func (s *sorting) sort(entries []SortEntry, at keyPlace) {
	for at.column < s.columns {
		sortChunks(entries, s.scratch)
		if first := entries[0].Chunk; first == entries[len(entries)-1].Chunk { // without recursion, because a common prefix of all keys may be long
			at = s.next(entries[0], at)
			s.load(entries, at)
			continue
		}
		for from := 0; from < len(entries); {
			to := from + 1
			for to < len(entries) && entries[to].Chunk == entries[from].Chunk {
				to++
			}
			if to-from > 1 {
				if next := s.next(entries[from], at); next.column < s.columns {
					s.load(entries[from:to], next)
					s.sort(entries[from:to], next)
				}
			}
			from = to
		}
		return
	}
}

// next returns the place of the chunk that follows an entry's Chunk, whose place is at.
func (s *sorting) next(e SortEntry, at keyPlace) keyPlace {
	if s.keys[e.Batch].columns[at.column].more(at.level, e.Chunk) {
		return keyPlace{at.column, at.level + 1}
	}
	return keyPlace{column: at.column + 1}
}

// load sets the Chunk of each entry to the chunk at a place.
func (s *sorting) load(entries []SortEntry, at keyPlace) {
	if at.column == s.columns {
		return
	}
	for i := range entries {
		e := &entries[i]
		e.Chunk = s.keys[e.Batch].columns[at.column].chunk(at.level, int(e.Row))
	}
}

// Maximum numbers of entries for which a sort without tables of counts is used.
const (
	maxInserted = 24
	maxCompared = 384
)

// sortChunks sorts entries by Chunk. Entries with the same Chunk keep their order.
func sortChunks(entries, scratch []SortEntry) {
	if slices.IsSortedFunc(entries, compareChunks) {
		return
	}
	switch n := len(entries); {
	case n <= maxInserted:
		for i := 1; i < n; i++ {
			e, k := entries[i], i
			for ; k > 0 && entries[k-1].Chunk > e.Chunk; k-- {
				entries[k] = entries[k-1]
			}
			entries[k] = e
		}
	case n <= maxCompared:
		slices.SortFunc(entries, func(a, b SortEntry) int {
			return cmp.Or(compareChunks(a, b), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Row, b.Row))
		})
	default:
		sortByRadix(entries, scratch[:n])
	}
}

func compareChunks(a, b SortEntry) int { return cmp.Compare(a.Chunk, b.Chunk) }

// digits is the number of bytes of a chunk.
const digits = 8

// sortByRadix sorts entries by the bytes of Chunk, starting with the lowest byte. It skips bytes
// that are the same in all entries.
func sortByRadix(entries, scratch []SortEntry) {
	var counts [digits][256]uint32
	for i := range entries {
		for d, chunk := 0, entries[i].Chunk; d < digits; d, chunk = d+1, chunk>>8 {
			counts[d][byte(chunk)]++
		}
	}
	from, to := entries, scratch
	for d := range digits {
		shift := 8 * d
		starts := &counts[d]
		if starts[byte(from[0].Chunk>>shift)] == uint32(len(from)) {
			continue
		}
		sum := uint32(0)
		for i, n := range starts {
			starts[i], sum = sum, sum+n
		}
		for i := range from {
			digit := byte(from[i].Chunk >> shift)
			to[starts[digit]] = from[i]
			starts[digit]++
		}
		from, to = to, from
	}
	if &from[0] != &entries[0] {
		copy(entries, from)
	}
}
