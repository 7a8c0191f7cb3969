package chunkcache

import "time"

// rates are the times that decoding takes per byte, by column of a table: those of all its row groups together, since
// the time of one array says little while threads compete for processors. The zero value has none.
type rates map[rateKey]tally

// rateKey identifies a column of a table.
type rateKey struct {
	table string // uuid
	field int
	kind  string
}

const (
	// copyRate is the least time that rebuilding a byte takes, in nanoseconds.
	copyRate = 0.1
	// rateBytes is after how many bytes the arrays so far count half.
	rateBytes = 64 << 20
	// maxRates is the maximum of columns. Then all are measured again.
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

// of returns the time that rebuilding a column takes per byte, in nanoseconds: that of some arrays of it if none was
// measured.
func (r rates) of(of ChunkID, some tally) float64 {
	if sum, known := r[rateKey{of.Table, of.Field, of.Type}]; known {
		some = sum
	}
	return float64(some.cost)/float64(max(some.bytes, 1)) + copyRate
}

// tally is what arrays take, and took to decode.
type tally struct {
	rows, bytes int64
	fixed       int64 // the part of bytes that more rows do not add to: dictionaries
	cost        time.Duration
}

func (t *tally) add(of tally) {
	t.rows, t.bytes, t.fixed, t.cost = t.rows+of.rows, t.bytes+of.bytes, t.fixed+of.fixed, t.cost+of.cost
}

func (t *tally) remove(of tally) {
	t.rows, t.bytes, t.fixed, t.cost = t.rows-of.rows, t.bytes-of.bytes, t.fixed-of.fixed, t.cost-of.cost
}
