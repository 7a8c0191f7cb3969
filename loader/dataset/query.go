package dataset

import (
	"cmp"

	"github.com/penstock/penstock/internal/fault"
)

// Query is one client's wish. The zero values of Order, Shuffle, Tail, Count,
// Wire and Endpoints are replaced by their defaults when a query is
// decoded; Defaults does the same for queries made in Go.
type Query struct {
	Dataset   string   // name of a configured dataset; "" with Inline
	Inline    *Dataset // a dataset in the query itself, without a name
	Columns   []Column // output names of the dataset; nil: all; never empty otherwise
	Dense     []Dense  // what is packed into one column, in their order; nil: nothing
	Filter    Filter   // over all columns that the dataset offers; zero: the cursor's, without one all rows
	Sample    *Sample  // nil: the cursor's, without one all rows
	Since     int64    // snapshot of the training table: rows that were appended after it alone; 0: the cursor's, without one all rows
	Snapshots *Pin     // what it leaves out is the cursor's, or else at the tables' refs
	Order     Order    // zero: the cursor's, and so those below
	Shuffle   Shuffle  // "" without a cursor: requests where the dataset has a key, else rows; with Stored splits
	// ShuffleWindow is how many stored training rows are permuted among each other;
	// 0 without a cursor: DefaultShuffleWindow, and none where Shuffle leaves rows as stored.
	ShuffleWindow int64
	Seed          int64
	Epoch         int64
	Lanes         int   // 0: the cursor's, without one Shard.Of; a multiple of Shard.Of, at most maxLanes
	Shard         Shard // zero: that of a single cursor; without one, all of one
	Every         Every // zero: every step of the shard
	BatchRows     int   // 0: left to the loader, which knows how large rows are
	// GlobalBatchRows is the rows of one step over all shards, instead of BatchRows; 0:
	// not said.
	GlobalBatchRows int
	// BatchRequests is the requests of a batch, instead of its rows: then every lane gives
	// equal requests in each step. 0: rows are counted.
	BatchRequests int
	Tail          Tail
	Limit         int64 // rows after which the stream ends, counted from where it begins; 0: none
	Count         Count
	Wire          Wire
	Endpoints     Endpoints
	Cursor        Cursors // empty: from the start
	// Algorithm is the version of the rules by which the plan is made; 0: the cursor's,
	// without one the newest. No client says it: tickets do.
	Algorithm int
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

// Tail says what happens to rows that do not fill a last step.
type Tail string

// The tails.
const (
	TailKeep Tail = "keep" // every row exactly once
	TailDrop Tail = "drop" // all shards end at the same step
)

// Drops says whether they are left out.
func (t Tail) Drops() bool {
	switch t {
	case TailDrop:
		return true
	case TailKeep:
		return false
	}
	return false
}

// Count says whether a plan's rows are counted where they are not known.
type Count string

// The counts.
const (
	CountEstimate Count = "estimate"
	CountExact    Count = "exact"
)

// IsExact says whether they are.
func (c Count) IsExact() bool {
	switch c {
	case CountExact:
		return true
	case CountEstimate:
		return false
	}
	return false
}

// Wire is the form of the batches (docs/spec/wire.md).
type Wire string

// The forms.
const (
	WirePlain   Wire = "plain"   // every column beside the others
	WireIndexed Wire = "indexed" // of each staging table, and of requests, a dictionary of the distinct rows
	WireAuto    Wire = "auto"    // of each the one of the two that takes fewer bytes
	WireGrouped Wire = "grouped" // a row for each request, with lists of what its rows have
)

// Indexed says whether staging tables and requests come as dictionaries, or may.
// Another form than those above is Internal.
func (w Wire) Indexed() (bool, error) {
	switch w {
	case WireIndexed, WireAuto:
		return true, nil
	case WirePlain, WireGrouped:
		return false, nil
	}
	return false, fault.New(fault.Internal, "batches are asked for in a form %q, which does not exist", string(w))
}

// Auto says whether each stream decides what is indexed.
func (w Wire) Auto() bool {
	switch w {
	case WireAuto:
		return true
	case WirePlain, WireIndexed, WireGrouped:
		return false
	}
	return false
}

// Grouped says whether a batch has a row for each request.
func (w Wire) Grouped() bool {
	switch w {
	case WireGrouped:
		return true
	case WirePlain, WireIndexed, WireAuto:
		return false
	}
	return false
}

// CountsFirst says whether the query asks for exact counts of rows, however they are
// come by: shards that end at the same step must know where that is.
func (q Query) CountsFirst() bool { return q.Count.IsExact() || q.Tail.Drops() }

// AllShards is the Index of a query that asks for every shard.
const AllShards = -1

// Shard is what one trainer rank reads: lanes Index, Index+Of, … of Of shards.
type Shard struct {
	Index int `json:"index"` // 0 to Of-1; AllShards: not chosen
	Of    int `json:"of"`    // at least 1
}

// Shuffling returns what a query with its defaults set permutes, for a dataset that has
// a key or has none, and within how many rows: 0 where rows stay as stored.
func (q Query) Shuffling(keyed bool) (Shuffle, int64, error) {
	shuffle := q.Shuffle
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
	return shuffle, cmp.Or(q.ShuffleWindow, DefaultShuffleWindow), nil
}

// Every is the steps that one of several DataLoader workers takes of a shard: those
// whose number, counted from the query's cursor, is Step modulo Of.
type Every struct {
	Step int `json:"step"` // 0 to Of-1
	Of   int `json:"of"`   // at least 1
}

// Takes says whether the worker takes a step, which is counted from the cursor.
func (e Every) Takes(step int64) bool { return step%int64(e.Of) == int64(e.Step) }

// Steps returns how many of so many steps, from the cursor on, are the worker's.
func (e Every) Steps(steps int64) int64 {
	of, step := int64(e.Of), int64(e.Step)
	return (max(steps, step) - step + of - 1) / of
}

// Rows returns how many of the rows that a lane has left are the worker's, where each
// step takes q of them.
func (e Every) Rows(left, q int64) int64 {
	of, step := int64(e.Of), int64(e.Step)
	full := left / q
	rows := (max(full, step) - step + of - 1) / of * q
	if e.Takes(full) {
		rows += left % q
	}
	return rows
}

// Defaults returns the query with every unset field at its default, as
// decoding leaves it: what the plan is made of is the cursor's where there is one,
// Shard too where there is only one. BatchRows and GlobalBatchRows stay as they are. A sample and an
// inline dataset get their own.
func (q Query) Defaults() Query {
	if len(q.Cursor) > 0 {
		q = q.resumed(q.Cursor[0])
	}
	if q.Inline != nil {
		d := q.Inline.Defaults()
		q.Inline = &d
	}
	if q.Sample != nil {
		sample := q.Sample.defaults()
		q.Sample = &sample
	}
	q.Order = cmp.Or(q.Order, Stored)
	if !q.Order.IsShuffled() {
		q.Shuffle = cmp.Or(q.Shuffle, ShuffleSplits)
	}
	q.Tail = cmp.Or(q.Tail, TailKeep)
	q.Count = cmp.Or(q.Count, CountEstimate)
	q.Wire = cmp.Or(q.Wire, WirePlain)
	q.Endpoints = cmp.Or(q.Endpoints, EndpointsShards)
	if q.Shard.Of == 0 {
		q.Shard = Shard{Index: AllShards, Of: 1}
		if len(q.Cursor) == 1 && q.Cursor[0].Shard.Of > 0 {
			q.Shard = q.Cursor[0].Shard
		}
	}
	if q.Every.Of == 0 {
		q.Every = Every{Of: 1}
	}
	if q.Lanes == 0 {
		q.Lanes = q.Shard.Of
	}
	return q
}

// resumed returns the query with what it leaves out of a plan as a cursor has it. A
// filter or sample of the cursor that cannot be read stays out: decoding refuses it.
func (q Query) resumed(c Cursor) Query {
	if q.Filter.IsZero() {
		q.Filter, _ = parseFilter(c.Filter)
	}
	if q.Sample == nil {
		q.Sample, _ = parseSample(c.Sample)
	}
	q.Since = cmp.Or(q.Since, c.Since)
	q.Order = cmp.Or(q.Order, c.Order)
	q.Shuffle = cmp.Or(q.Shuffle, c.Shuffle)
	q.ShuffleWindow = cmp.Or(q.ShuffleWindow, c.ShuffleWindow)
	q.Algorithm = cmp.Or(q.Algorithm, c.Algorithm)
	q.Seed = cmp.Or(q.Seed, c.Seed)
	q.Epoch = cmp.Or(q.Epoch, c.Epoch)
	q.Lanes = cmp.Or(q.Lanes, c.Lanes)
	if q.Snapshots == nil || q.Snapshots.Agrees(c.Pin) {
		pin := c.Pin
		q.Snapshots = &pin
	}
	return q
}
