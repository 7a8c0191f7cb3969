package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/penstock/penstock/internal/fault"
)

// Rows decides which rows a plan gives, and in which order. Queries, plans and cursors
// hold the same value. In a query, a zero field means the default, or with a cursor the
// cursor's value; Query.Defaults sets all of them but Dataset, Inline and Pin.
type Rows struct {
	// Dataset is the name of a configured dataset, or "" with Inline. In plans and cursors
	// it is Dataset.RowsDigest, and Inline is nil.
	Dataset string
	Inline  *Dataset // a dataset without a name
	// Pin fixes tables. A query may leave tables out, which are then read at their
	// refs; a plan pins all of them.
	Pin    Pin
	Filter Filter  // over all columns that the dataset offers; in plans and cursors canonical; zero: all rows
	Sample *Sample // nil: all rows
	Since  int64   // snapshot of the training table: only rows appended after it; 0: all rows
	Order  Order
	// Shuffle is what a shuffled order permutes. In a query "" means requests if the
	// dataset has a key, else rows.
	Shuffle Shuffle
	// ShuffleWindow is how many stored training rows are permuted among each other. In a
	// query 0 means DefaultShuffleWindow; in a plan 0 means that rows come as stored.
	ShuffleWindow int64
	Seed          int64
	Epoch         int64
	Lanes         int // a multiple of Shard.Of, at most maxLanes
	// Requests reports whether lanes give equal requests in each step, rather than equal
	// rows: whether the query has BatchRequests.
	Requests bool
}

// Order is the order of training rows (docs/spec/order.md).
type Order string

// The orders.
const (
	Stored   Order = "stored"
	Shuffled Order = "shuffled"
)

// IsShuffled says whether splits come in another order than as stored.
func (o Order) IsShuffled() bool {
	switch o {
	case Shuffled:
		return true
	case Stored:
		return false
	}
	return false
}

// Shuffle says what a shuffled order permutes.
type Shuffle string

// What is permuted: the splits always, and within the windows of each range too.
const (
	ShuffleSplits   Shuffle = "splits"   // nothing else: the rows of a split come as stored
	ShuffleRequests Shuffle = "requests" // the rows of a window, those of a request as one
	ShuffleRows     Shuffle = "rows"     // the rows of a window, each by itself
)

// Windows says whether rows are permuted within windows. Another shuffle than those
// above is Internal.
func (s Shuffle) Windows() (bool, error) {
	switch s {
	case ShuffleRequests, ShuffleRows:
		return true, nil
	case ShuffleSplits:
		return false, nil
	}
	return false, fault.New(fault.Internal, "a shuffle of %q is asked for, which does not exist", string(s))
}

// ByRequest says whether the rows of a request stay together within a window.
func (s Shuffle) ByRequest() bool {
	switch s {
	case ShuffleRequests:
		return true
	case ShuffleRows, ShuffleSplits:
		return false
	}
	return false
}

// DefaultShuffleWindow is the ShuffleWindow of a query that names none.
const DefaultShuffleWindow = 1 << 17

// Shuffling returns what rows with their defaults set permute, for a dataset that has a
// key or has none, and the window in rows: 0 if rows come as stored.
func (r Rows) Shuffling(keyed bool) (Shuffle, int64, error) {
	shuffle := r.Shuffle
	switch {
	case shuffle == "" && keyed:
		shuffle = ShuffleRequests
	case shuffle == "":
		shuffle = ShuffleRows
	}
	windows, err := shuffle.Windows()
	if err != nil || !windows {
		return shuffle, 0, err
	}
	return shuffle, cmp.Or(r.ShuffleWindow, DefaultShuffleWindow), nil
}

// resumed returns the rows of a query with each field that it leaves out taken from its
// cursor. The query alone names the dataset, and BatchRequests decides Requests.
func (r Rows) resumed(c Rows) Rows {
	r.Pin = r.Pin.filledFrom(c.Pin)
	if r.Filter.IsZero() {
		r.Filter = c.Filter
	}
	if r.Sample == nil {
		r.Sample = c.Sample
	}
	r.Since = cmp.Or(r.Since, c.Since)
	r.Order = cmp.Or(r.Order, c.Order)
	r.Shuffle = cmp.Or(r.Shuffle, c.Shuffle)
	r.ShuffleWindow = cmp.Or(r.ShuffleWindow, c.ShuffleWindow)
	r.Seed = cmp.Or(r.Seed, c.Seed)
	r.Epoch = cmp.Or(r.Epoch, c.Epoch)
	r.Lanes = cmp.Or(r.Lanes, c.Lanes)
	return r
}

// defaults sets each unset field but the dataset and the pin. A sample and an inline
// dataset get defaults of their own, in copies.
func (r Rows) defaults(reading Reading) Rows {
	if r.Inline != nil {
		d := r.Inline.Defaults()
		r.Inline = &d
	}
	r.Pin = r.Pin.normal()
	if r.Sample != nil {
		sample := r.Sample.defaults()
		r.Sample = &sample
	}
	r.Order = cmp.Or(r.Order, Stored)
	if !r.Order.IsShuffled() {
		r.Shuffle = cmp.Or(r.Shuffle, ShuffleSplits)
	}
	r.Lanes = cmp.Or(r.Lanes, reading.Shard.Of)
	r.Requests = reading.BatchRequests > 0
	return r
}

// rowsForm is the JSON of Rows, but for the pin. A nil field is left out.
type rowsForm struct {
	Dataset       any         `json:"dataset,omitempty"`
	Filter        *string     `json:"filter,omitempty"`
	Sample        *sampleForm `json:"sample,omitempty"`
	Since         *int64      `json:"since,omitempty"`
	Order         *Order      `json:"order,omitempty"`
	Shuffle       *Shuffle    `json:"shuffle,omitempty"`
	ShuffleWindow *int64      `json:"shuffle_window,omitempty"`
	Seed          *int64      `json:"seed,omitempty"`
	Epoch         *int64      `json:"epoch,omitempty"`
	Lanes         *int        `json:"lanes,omitempty"`
}

// form returns the JSON form of a plan's rows, as cursors have it: only a sample, since
// and a window that are not there are left out.
func (r Rows) form() rowsForm {
	text := r.Filter.String()
	return rowsForm{
		Dataset: r.Dataset, Filter: &text, Sample: r.Sample.form(), Since: other(r.Since, 0), Order: &r.Order, Shuffle: &r.Shuffle,
		ShuffleWindow: other(r.ShuffleWindow, 0), Seed: &r.Seed, Epoch: &r.Epoch, Lanes: &r.Lanes,
	}
}

// formWithout returns the JSON form of a query's rows without the fields that equal those
// of preset, which decoding puts back.
func (r Rows) formWithout(preset Rows) rowsForm {
	form := rowsForm{
		Dataset: r.Dataset, Filter: other(r.Filter.String(), preset.Filter.String()), Since: other(r.Since, preset.Since), Order: other(r.Order, preset.Order),
		Shuffle: other(r.Shuffle, preset.Shuffle), ShuffleWindow: other(r.ShuffleWindow, preset.ShuffleWindow),
		Seed: other(r.Seed, preset.Seed), Epoch: other(r.Epoch, preset.Epoch), Lanes: other(r.Lanes, preset.Lanes),
	}
	if r.Sample.text() != preset.Sample.text() {
		form.Sample = r.Sample.form()
	}
	if r.Inline != nil {
		form.Dataset = r.Inline.form()
	}
	return form
}

// other returns a pointer to a value that is not the preset, and nil for the preset.
func other[T comparable](v, preset T) *T {
	if v == preset {
		return nil
	}
	return &v
}

// Digest returns the digest of all fields of a plan's rows.
func (r Rows) Digest() string {
	sum := sha256.Sum256(encode(struct {
		rowsForm
		Pin      Pin  `json:"pin"`
		Requests bool `json:"requests"`
	}{r.form(), r.Pin, r.Requests}))
	return hex.EncodeToString(sum[:])
}

// rowsText is a field of Rows as errors show it: its name in JSON and its value.
type rowsText struct{ name, text string }

// texts returns the fields of Rows, but for the pin, as errors show them.
func (r Rows) texts() []rowsText {
	unit := "rows"
	if r.Requests {
		unit = "requests"
	}
	return []rowsText{
		{"dataset", r.Dataset},
		{"filter", r.Filter.String()},
		{"sample", r.Sample.Canonical()},
		{"since", orNone(r.Since)},
		{"order", string(r.Order)},
		{"shuffle", string(r.Shuffle)},
		{"shuffle_window", orNone(r.ShuffleWindow)},
		{"seed", strconv.FormatInt(r.Seed, 10)},
		{"epoch", strconv.FormatInt(r.Epoch, 10)},
		{"lanes", strconv.Itoa(r.Lanes)},
		{"batches of", unit},
	}
}
