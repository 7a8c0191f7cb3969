package chunkcache

import "time"

// rates has the decoding time per byte of each column of a table. The time is averaged over the
// column's row groups, because the time of a single array says little while threads compete for
// processors. The zero value has no rates.
type rates map[rateKey]tally

// rateKey identifies a column of a table.
type rateKey struct {
	table string // uuid
	field int
	kind  string
}

const (
	// copyRate is the minimum time to rebuild a byte, in nanoseconds.
	copyRate = 0.1
	// rateBytes is the number of bytes after which the weight of all earlier arrays of a column is
	// halved.
	rateBytes = 64 << 20
	// maxRates is the maximum number of columns with a rate. When it is exceeded, all rates are
	// discarded and measured again.
	maxRates = 1 << 16
)

// add adds an array of a column.
func (r rates) add(of ChunkID, one tally) {
	key := rateKey{of.Table, of.Field, of.Type}
	sum, known := r[key]
	if !known && len(r) == maxRates {
		clear(r)
	}
	sum.add(one)
	if sum.bytes > rateBytes {
		sum.bytes, sum.cost = sum.bytes/2, sum.cost/2
	}
	r[key] = sum
}

// of returns the time per byte to rebuild a column, in nanoseconds. If nothing was measured for the
// column, the time of the given arrays is used.
func (r rates) of(of ChunkID, some tally) float64 {
	if sum, known := r[rateKey{of.Table, of.Field, of.Type}]; known {
		some = sum
	}
	return float64(some.cost)/float64(max(some.bytes, 1)) + copyRate
}

// tally is the size of some arrays, and the time that decoding them took.
type tally struct {
	rows, bytes int64
	fixed       int64 // the part of bytes that does not grow with more rows: dictionaries
	cost        time.Duration
}

func (t *tally) add(of tally) {
	t.rows, t.bytes, t.fixed, t.cost = t.rows+of.rows, t.bytes+of.bytes, t.fixed+of.fixed, t.cost+of.cost
}

func (t *tally) remove(of tally) {
	t.rows, t.bytes, t.fixed, t.cost = t.rows-of.rows, t.bytes-of.bytes, t.fixed-of.fixed, t.cost-of.cost
}
