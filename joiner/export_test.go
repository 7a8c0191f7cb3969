package joiner

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// Word is the bytes of a number in a key.
const Word = word

// Functions for tests outside of the package.
var (
	BuildUpTo  = build
	CheckTypes = (Input{}).checkTypes
	Render     = render
)

// Holds returns the bytes of memory that a build side holds.
func Holds(s *BuildSide) int64 {
	var keys keyVector
	var x *hashIndex
	switch l := s.index.(type) {
	case *hashIndex:
		keys, x = l.keys, l
	case *sortedKeys:
		keys, x = l.keys, l.index.Load()
	}
	bytes := 8*cap(keys.ints) + cap(keys.arena) + 8*cap(keys.ends) + 8*cap(s.times)
	if x != nil {
		bytes += 4 * cap(x.slots)
	}
	return batch.ArraySize(s.dictionary) + int64(bytes+4*(cap(s.groups.of)+cap(s.groups.starts)+cap(s.groups.members)))
}

// CompareKeys compares the keys of two rows of a batch, as a search does.
func CompareKeys(b arrow.RecordBatch, key []int, i, j int32) (int, error) {
	columns, err := newKeyColumns(b.Schema(), key)
	if err != nil {
		return 0, err
	}
	columns.load(b)
	return columns.keys.compare(i, j), nil
}

// Field returns the dictionary column that joins get from a build side, under the name it was
// built with.
func (s *BuildSide) Field() arrow.Field { return s.schema.field }

// FieldOf returns the expected field of joined batches.
var FieldOf = fieldOf
