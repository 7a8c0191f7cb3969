package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"github.com/penstock/penstock/internal/fault"
)

// Rows defines which rows a plan returns, and their order. Queries, plans and cursors
// have the same fields. In a query, a zero field means the value of the cursor, if there
// is one, or the default. Query.Defaults sets all of them except Dataset, Inline, With and Pin.
type Rows struct {
	// Dataset is the name of a configured dataset, or "" if Inline is set. In plans and
	// cursors it is Dataset.RowsDigest, and Inline is nil.
	Dataset string
	Inline  *Dataset // a dataset without a name
	// With are staging entries that the query adds to a configured dataset, after the dataset's own
	// entries. An entry without a key uses the key of the dataset. With is nil in plans and
	// cursors, since the digest in Dataset covers it.
	With []Staging
	// Pin fixes the snapshots of tables. If a query does not pin a table, the table is read at its
	// ref. A plan pins all tables.
	Pin    Pin
	Filter Filter  // may use all columns of the dataset; canonical in plans and cursors; zero: all rows
	Sample *Sample // nil: all rows
	Since  int64   // snapshot of the training table: only rows appended after it are read; 0: all rows
	Order  Order
	// Shuffle is the unit that a shuffled order permutes. In a query, "" means requests if
	// the dataset has a key, and rows otherwise.
	Shuffle Shuffle
	// ShuffleWindow is the number of stored training rows that are permuted together. 0
	// means DefaultShuffleWindow in a query, and the stored order of rows in a plan.
	ShuffleWindow int64
	// ShuffleParts is the number of places in a run from which the rows of a window come. 0 means
	// DefaultShuffleParts in a query, and the stored order of rows in a plan.
	ShuffleParts int64
	Seed         int64
	Epoch        int64
	Lanes        int // a multiple of Shard.Of
	// Requests reports whether lanes return equal numbers of requests in each step, rather
	// than of rows. It is set if the query has BatchRequests.
	Requests bool
}

// Order is the order of training rows (docs/spec/order.md).
type Order string

// The orders.
const (
	Stored   Order = "stored"
	Shuffled Order = "shuffled"
)

// IsShuffled reports whether splits are permuted.
func (o Order) IsShuffled() bool {
	switch o {
	case Shuffled:
		return true
	case Stored:
		return false
	}
	return false
}

// Shuffle is the unit that a shuffled order permutes.
type Shuffle string

// The units of shuffling. Splits are always permuted; requests and rows are permuted
// within the windows of each range as well.
const (
	ShuffleSplits   Shuffle = "splits"   // splits only: the rows of a split keep their stored order
	ShuffleRequests Shuffle = "requests" // requests within a window; the rows of a request stay together
	ShuffleRows     Shuffle = "rows"     // single rows within a window
)

// Windows reports whether rows are permuted within windows. It returns an Internal error
// for an unknown shuffle.
func (s Shuffle) Windows() (bool, error) {
	switch s {
	case ShuffleRequests, ShuffleRows:
		return true, nil
	case ShuffleSplits:
		return false, nil
	}
	return false, fault.New(fault.Internal, "unknown shuffle %q", string(s))
}

// ByRequest reports whether the rows of a request stay together within a window.
func (s Shuffle) ByRequest() bool {
	switch s {
	case ShuffleRequests:
		return true
	case ShuffleRows, ShuffleSplits:
		return false
	}
	return false
}

// The defaults of a query.
const (
	DefaultShuffleWindow = 1 << 17 // of ShuffleWindow
	DefaultShuffleParts  = 8       // of ShuffleParts
)

// Shuffling returns the rows with Shuffle, ShuffleWindow and ShuffleParts set. The other defaults
// must be set already. ShuffleWindow and ShuffleParts are 0 if the rows of a split keep their
// stored order. The default shuffle depends on whether the dataset has a key.
func (r Rows) Shuffling(keyed bool) (Rows, error) {
	switch {
	case r.Shuffle == "" && keyed:
		r.Shuffle = ShuffleRequests
	case r.Shuffle == "":
		r.Shuffle = ShuffleRows
	}
	windows, err := r.Shuffle.Windows()
	if err != nil || !windows {
		r.ShuffleWindow, r.ShuffleParts = 0, 0
		return r, err
	}
	r.ShuffleWindow = cmp.Or(r.ShuffleWindow, DefaultShuffleWindow)
	r.ShuffleParts = cmp.Or(r.ShuffleParts, DefaultShuffleParts)
	return r, nil
}

// resumed returns the rows of a query, with unset fields taken from the rows of its cursor.
// Dataset, With and Requests are never taken from the cursor, since the query sets them.
func (r Rows) resumed(c Rows) Rows {
	r.Pin = r.Pin.filledFrom(c.Pin)
	for _, f := range RowsFields() {
		if !f.isSet(&r) {
			f.assign(&r, &c)
		}
	}
	return r
}

// defaults sets each unset field except the dataset and the pin. It copies a sample, an
// inline dataset and entries to set their defaults.
func (r Rows) defaults(reading Reading) Rows {
	if r.Inline != nil {
		d := r.Inline.Defaults()
		r.Inline = &d
	}
	r.With = withDefaults(r.With, nil)
	r.Pin = r.Pin.normal()
	if r.Sample != nil {
		sample := r.Sample.defaults()
		r.Sample = &sample
	}
	setDefaults(&r, RowsFields())
	if !r.Order.IsShuffled() {
		r.Shuffle = cmp.Or(r.Shuffle, ShuffleSplits)
	}
	r.Lanes = cmp.Or(r.Lanes, reading.Shard.Of)
	r.Requests = reading.BatchRequests > 0
	return r
}

// source returns the JSON form of the query's dataset.
func (r *Rows) source() any {
	if r.Inline != nil {
		return r.Inline.form()
	}
	return r.Dataset
}

// Digest returns the digest of all fields of a plan's rows.
func (r Rows) Digest() string {
	o := newObject()
	o.putRows(r)
	o.put("pin", r.Pin)
	o.put("requests", r.Requests)
	sum := sha256.Sum256(o.bytes())
	return hex.EncodeToString(sum[:])
}

// unit returns the word for errors that names what the plan counts in batches: rows or requests.
func (r Rows) unit() string {
	if r.Requests {
		return "requests"
	}
	return "rows"
}
