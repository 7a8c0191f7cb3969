package joiner

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// Keys holds the keys of a batch's rows and, if the rule has a time, their times:
// all that a join needs of them.
type Keys struct {
	rows    int           // at least one
	arrays  []arrow.Array // the key columns
	encoded keyVector     // the keys, encoded
	times   times         // empty if the rule has none
}

// Rows returns the number of rows.
func (k *Keys) Rows() int { return k.rows }

// Slice assigns rows to n slices by a hash of their keys, so that equal keys of two
// streams are in the same slice. It writes each row's slice to slices, or -1 for a
// row with a null in its key or without a time, which matches nothing. If checks is
// not nil, it gets other bits of each key's hash.
func (k *Keys) Slice(n int, slices, checks []int32) {
	for i := range slices {
		var hash uint64
		if k.encoded.ends == nil {
			hash = hashInt(k.encoded.ints[i])
		} else {
			hash = hashBytes(k.encoded.key(int32(i)))
		}
		// This hash is independent of the index's and of Iceberg's, so that the
		// rows of one slice or bucket are evenly distributed in an index.
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

// KeyReader reads the keys and times of a stream's batches. It is not safe for
// concurrent use.
type KeyReader struct {
	columns *keyColumns
	time    *timeColumn // nil if there is none
	keys    Keys
}

// NewKeyReader returns a reader of the key columns of a stream and, if time is not
// nil, of a time column, given their positions. Types that cannot be keys or times
// are Invalid; positions out of range are Internal.
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

// Read reads a batch, which has at least one row. The result is valid until the
// next Read, and as long as the batch.
func (r *KeyReader) Read(b arrow.RecordBatch) *Keys {
	r.columns.load(b)
	if r.time != nil {
		r.time.load(b.Column(r.time.at))
	}
	r.keys = keysOf(b, r.columns, r.time)
	return &r.keys
}

// keysOf returns the keys and times that were loaded from a batch.
func keysOf(b arrow.RecordBatch, columns *keyColumns, time *timeColumn) Keys {
	k := Keys{rows: int(b.NumRows()), arrays: columns.arrays, encoded: columns.keys}
	if time != nil {
		k.times = time.times
	}
	return k
}

// keyColumns reads the key columns of batches. It is not safe for concurrent use.
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

// load reads the keys of a batch. They are valid until the next call, and as long as
// the batch.
func (k *keyColumns) load(b arrow.RecordBatch) {
	for i, at := range k.at {
		k.arrays[i] = b.Column(at)
	}
	k.keys = k.encoder.encode(k.arrays)
}

// Priorities writes to dst a pseudorandom number for each row that depends only on its
// key and the seed. It is the same on every machine and in every version, since it
// determines the order of training rows. A row with a null in its key gets the result
// of alone, since nulls are not equal.
func (k *Keys) Priorities(seed uint64, dst []uint64, alone func(row int) uint64) {
	for i := range dst {
		switch {
		case k.encoded.null != nil && k.encoded.null[i]:
			dst[i] = alone(i)
			continue
		case k.encoded.ends == nil:
			dst[i] = hashInt(k.encoded.ints[i])
		default:
			dst[i] = hashBytes(k.encoded.key(int32(i)))
		}
		dst[i] = mix(mix(dst[i]^seed, seedB)^seedC, seedA)
	}
}
