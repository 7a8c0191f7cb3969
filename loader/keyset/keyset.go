// Package keyset holds the distinct keys of a table in memory, so that rows with other keys can be dropped
// before they are written.
//
// A key is held as a number of 64 bits. If the key is a single integer, date, time or timestamp,
// the number is its value; otherwise it is a hash of the key. A row whose key is in the set is
// therefore never dropped. A row with another key is kept by mistake only if the hashes of two keys
// are equal. This does no harm: the row will match no row.
//
// Memory is reserved before it is used. The package is pure.
package keyset

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Keys are divided into shards by their first bits, so that only a short list is copied when it
// grows.
const (
	shardBits  = 9
	shards     = 1 << shardBits
	firstWords = 16
	wordBytes  = 8
	baseBytes  = shards * (32 + 2*firstWords*wordBytes) // memory of all lists while they have only few keys
)

// BytesFor returns the maximum memory of a set that has the given number of distinct keys.
func BytesFor(keys int64) int64 { return baseBytes + keys*5*wordBytes/2 }

// Comparable reports whether keys of two types can be equal. They can if the types are the same and
// tables can be joined by this type, or if both types are integers of any width.
func Comparable(a, b arrow.DataType) bool {
	whole := func(t arrow.DataType) bool { return t.ID() == arrow.INT32 || t.ID() == arrow.INT64 }
	return bucket.Supported(a) && (arrow.TypeEqual(a, b) || whole(a) && whole(b))
}

// DistinctKeys is a set of keys. Rows are added first; then the set is frozen, and may be read from several
// goroutines. Its owner releases it.
type DistinctKeys struct {
	held  *budget.Reservation
	limit int64 // maximum bytes; below 0: no limit
	lists [shards]sortedWords
	bytes []byte // of one key
	last  uint64 // the word that was added last, if any is true
	any   bool
}

// sortedWords has the words of one shard. The first words, as many as the field sorted says, are
// sorted and distinct.
type sortedWords struct {
	words  []uint64
	sorted int
}

// New returns an empty set. limit is the maximum number of bytes that it may take; if it is below
// 0, only the budget limits the set. what is the name of the set in errors.
func New(b *budget.Budget, what string, limit int64) (*DistinctKeys, error) {
	if limit >= 0 && limit < baseBytes {
		return nil, fault.New(fault.Exhausted, "%s need at least %d bytes of memory, and may take %d", what, baseBytes, limit)
	}
	held, err := b.Reserve(what, baseBytes)
	if err != nil {
		return nil, err
	}
	return &DistinctKeys{held: held, limit: limit}, nil
}

// Release releases the memory.
func (s *DistinctKeys) Release() {
	s.held.Release()
	s.lists = [shards]sortedWords{}
}

// Add adds the keys of the rows of a batch. The columns of the batch are the columns of the key.
// Keys with a null are left out. It fails with Exhausted if the keys do not fit.
func (s *DistinctKeys) Add(ctx context.Context, keys arrow.RecordBatch) error {
	columns := keys.Columns()
	for row := range int(keys.NumRows()) {
		if hasNull(columns, row) {
			continue
		}
		w, bytes, err := word(columns, row, s.bytes)
		if err != nil {
			return err
		}
		s.bytes = bytes
		if s.any && w == s.last { // rows of one request are often adjacent
			continue
		}
		s.last, s.any = w, true
		if err := s.add(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (s *DistinctKeys) add(ctx context.Context, w uint64) error {
	l := &s.lists[w>>(64-shardBits)]
	if len(l.words) == cap(l.words) {
		l.sort()
		if len(l.words) >= cap(l.words)*3/4 {
			if err := s.grow(ctx, l); err != nil {
				return err
			}
		}
	}
	l.words = append(l.words, w)
	return nil
}

// grow makes room in a list. Room for the first firstWords words of each list is already part of
// baseBytes.
func (s *DistinctKeys) grow(ctx context.Context, l *sortedWords) error {
	room := max(cap(l.words)*3/2, firstWords)
	if more := int64(room-firstWords) * wordBytes; more > 0 {
		before := int64(cap(l.words)-firstWords) * wordBytes
		if s.limit >= 0 && s.held.Held()+more > s.limit {
			return fault.New(fault.Exhausted, "%d bytes of memory do not hold the keys", s.limit)
		}
		if err := s.held.GrowWait(ctx, more); err != nil {
			return err
		}
		defer s.held.Shrink(before)
	}
	words := make([]uint64, len(l.words), room)
	copy(words, l.words)
	l.words = words
	return nil
}

// sort sorts the words and removes repeated ones.
func (l *sortedWords) sort() {
	if l.sorted == len(l.words) {
		return
	}
	slices.Sort(l.words)
	l.words = slices.Compact(l.words)
	l.sorted = len(l.words)
}

// Freeze ends the adding of rows.
func (s *DistinctKeys) Freeze() {
	for i := range s.lists {
		s.lists[i].sort()
	}
}

// Len returns the number of keys of a frozen set.
func (s *DistinctKeys) Len() int64 {
	n := int64(0)
	for i := range s.lists {
		n += int64(len(s.lists[i].words))
	}
	return n
}

// Contains sets found[i] to whether the set contains the key in row i of a batch. The set must be
// frozen, and the columns of the batch are the columns of the key. A key with a null is in no set.
func (s *DistinctKeys) Contains(_ context.Context, keys arrow.RecordBatch, found []bool) error {
	var bytes []byte
	columns := keys.Columns()
	for row := range found {
		if found[row] = false; hasNull(columns, row) {
			continue
		}
		w, used, err := word(columns, row, bytes)
		if err != nil {
			return err
		}
		bytes = used
		_, found[row] = slices.BinarySearchFunc(s.lists[w>>(64-shardBits)].words, w, cmp.Compare[uint64])
	}
	return nil
}

func hasNull(columns []arrow.Array, row int) bool {
	return slices.ContainsFunc(columns, func(a arrow.Array) bool { return a.IsNull(row) })
}

// word returns the number that stands for a key, and the scratch memory to pass to the next call.
func word(columns []arrow.Array, row int, scratch []byte) (uint64, []byte, error) {
	if len(columns) == 1 {
		if v, ok := batch.IntegerAt(columns[0], row); ok {
			return mixed(uint64(v)), scratch, nil
		}
	}
	scratch = scratch[:0]
	for _, column := range columns {
		var err error
		if scratch, err = batch.AppendValue(scratch, column, row); err != nil {
			return 0, scratch, err
		}
	}
	return xxhash.Sum64(scratch), scratch, nil
}

// mixed maps numbers one to one to other numbers, such that the first bits of the results for
// consecutive numbers differ.
func mixed(v uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	return bits.ReverseBytes64(v*odd) * odd
}
