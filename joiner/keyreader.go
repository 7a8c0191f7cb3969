package joiner

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// Keys is what a join looks at of the rows of one batch: their keys and, where
// the rule has a time, their times.
type Keys struct {
	rows    int           // at least one
	arrays  []arrow.Array // the key columns
	encoded keyVector     // the same, encoded
	times   times         // none where the rule has none
}

// Rows returns how many rows there are.
func (k *Keys) Rows() int { return k.rows }

// Slice divides rows into n slices by a hash of their keys, so that equal keys
// of two streams come to one slice. It writes the slice of each row to slices:
// -1 for a row that can match nothing, since it has a null in its key or no
// time. Other bits of each key's hash are written to checks, unless that is nil.
func (k *Keys) Slice(n int, slices, checks []int32) {
	for i := range slices {
		var hash uint64
		if k.encoded.ends == nil {
			hash = hashInt(k.encoded.ints[i])
		} else {
			hash = hashBytes(k.encoded.key(int32(i)))
		}
		// It shares no bits with the hash of an index, nor with Iceberg's: the
		// rows of a slice, or of a bucket, spread like any others.
		hash = mix(hash^seedC, seedA)
		slices[i] = int32(home(hash, n))
		if checks != nil {
			checks[i] = int32(uint32(hash))
		}
	}
	for _, null := range [][]bool{k.encoded.null, k.times.null} {
		for i, is := range null {
			if is {
				slices[i] = -1
			}
		}
	}
}

// KeyReader reads the keys, and the times, of a stream's batches. One goroutine
// uses it.
type KeyReader struct {
	columns *keyColumns
	time    *timeColumn // nil if there is none
	keys    Keys
}

// NewKeyReader reads key columns of a stream and, unless it is nil, a time
// column, given their positions. Types that cannot be keys, or times, are
// Invalid, positions that do not exist Internal.
func NewKeyReader(schema *arrow.Schema, key []int, time *int) (*KeyReader, error) {
	columns, err := newKeyColumns(schema, key)
	if err != nil {
		return nil, err
	}
	r := &KeyReader{columns: columns}
	if time != nil {
		if r.time, err = newTimeColumn(schema, *time); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Read reads a batch of at least one row. What it returns is valid until the
// next Read, and while the batch is.
func (r *KeyReader) Read(b arrow.RecordBatch) *Keys {
	r.columns.load(b)
	if r.time != nil {
		r.time.load(b.Column(r.time.at))
	}
	r.keys = keysOf(b, r.columns, r.time)
	return &r.keys
}

// keysOf returns the keys, and the times, that were loaded of a batch.
func keysOf(b arrow.RecordBatch, columns *keyColumns, time *timeColumn) Keys {
	k := Keys{rows: int(b.NumRows()), arrays: columns.arrays, encoded: columns.keys}
	if time != nil {
		k.times = time.times
	}
	return k
}

// keyColumns reads the key columns of batches. One goroutine uses it.
type keyColumns struct {
	at      []int
	fields  []arrow.Field
	encoder *encoder
	arrays  []arrow.Array // of the current batch
	keys    keyVector
}

func newKeyColumns(schema *arrow.Schema, at []int) (*keyColumns, error) {
	fields, types, err := keyFields(schema, at)
	if err != nil {
		return nil, err
	}
	return &keyColumns{at: slices.Clone(at), fields: fields, encoder: newEncoder(types), arrays: make([]arrow.Array, len(at))}, nil
}

// load reads the keys of a batch. They are valid until the next call and while
// the batch is.
func (k *keyColumns) load(b arrow.RecordBatch) {
	for i, at := range k.at {
		k.arrays[i] = b.Column(at)
	}
	k.keys = k.encoder.encode(k.arrays)
}
