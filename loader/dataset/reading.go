package dataset

import "cmp"

// Reading is what one reader asks of a plan: which columns, which of the rows, from
// where, and in which form. Another reading of the same Rows gives the same rows in the
// same order.
type Reading struct {
	Columns   []Column // output names of the dataset; nil: all; never empty otherwise
	Dense     []Dense  // columns that are packed into one, in their order; nil: none
	Shard     Shard    // zero: that of a single cursor; without one, all of one
	Every     Every    // zero: every step of the shard
	BatchRows int      // 0: chosen by the size of rows, or by GlobalBatchRows
	// GlobalBatchRows is the rows of one step over all shards, instead of BatchRows; 0:
	// not set.
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
}

// defaults sets each unset field.
func (r Reading) defaults() Reading {
	r.Tail = cmp.Or(r.Tail, TailKeep)
	r.Count = cmp.Or(r.Count, CountEstimate)
	r.Wire = cmp.Or(r.Wire, WirePlain)
	r.Endpoints = cmp.Or(r.Endpoints, EndpointsShards)
	if r.Shard.Of == 0 {
		r.Shard = Shard{Index: AllShards, Of: 1}
		if len(r.Cursor) == 1 && r.Cursor[0].Shard.Of > 0 {
			r.Shard = r.Cursor[0].Shard
		}
	}
	if r.Every.Of == 0 {
		r.Every = Every{Of: 1}
	}
	return r
}

// CountsFirst reports whether the reading needs exact counts of rows: shards that end
// at the same step must know where that is.
func (r Reading) CountsFirst() bool { return r.Count.IsExact() || r.Tail.Drops() }

// AllShards is the Index of a query that asks for every shard.
const AllShards = -1

// Shard is what one trainer rank reads: lanes Index, Index+Of, … of Of shards.
type Shard struct {
	Index int `json:"index"` // 0 to Of-1; AllShards: not chosen
	Of    int `json:"of"`    // at least 1
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
