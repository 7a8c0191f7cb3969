package dataset

// Reading describes how a client reads a plan: the columns, the part of the rows, the
// starting position and the form of the batches. Different readings of the same Rows see
// the same rows in the same order.
type Reading struct {
	Columns   []Column // output names of the dataset; nil: all; otherwise not empty
	Dense     []Dense  // columns that pack others, in order; nil: none
	Shard     Shard    // zero: the shard of a single cursor, otherwise the whole plan as one shard
	Every     Every    // zero: every step of the shard
	BatchRows int      // 0: chosen by the size of rows, or by GlobalBatchRows
	// GlobalBatchRows is the number of rows in one step over all shards, instead of
	// BatchRows. 0 means not set.
	GlobalBatchRows int
	// BatchRequests is the number of requests in a batch, instead of rows. Every lane then
	// returns the same number of requests in each step. 0 means that batches are sized by
	// rows.
	BatchRequests int
	Tail          Tail
	Limit         int64 // maximum number of rows from the starting position; 0: no limit
	Count         Count
	Wire          Wire
	Cache         CacheUse
	// Algorithm is the version of the rules by which the query is planned. 0: that of the cursor, or else 1. It is
	// not in Rows, because cursors have the algorithm of the plan.
	Algorithm int
	Endpoints Endpoints
	Job       string  // a label in status, logs and metrics; see JobLabel
	Cursor    Cursors // empty: from the start
}

// defaults sets each unset field to its default.
func (r Reading) defaults() Reading {
	setDefaults(&r, ReadingFields())
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

// Shared returns the reading without the fields in which streams that share rows may differ.
func (r Reading) Shared() Reading {
	unset := Reading{}.defaults()
	for _, f := range ReadingFields() {
		if f.perStream {
			f.assign(&r, &unset)
		}
	}
	return r
}

// WithBatchRows returns the reading with BatchRows set to a number of rows, and without the other
// fields that set the size of batches. If the number is 0, BatchRows is unset, too.
func (r Reading) WithBatchRows(rows int) Reading {
	for _, f := range ReadingFields() {
		if f.sizing {
			f.assign(&r, &Reading{})
		}
	}
	r.BatchRows = rows
	return r
}

// CountsFirst reports whether the reading needs exact row counts. For example, shards that must end
// at the same step need them to compute that step.
func (r Reading) CountsFirst() bool { return r.Count.IsExact() || r.Tail.Drops() }

// AllShards is the Index of a query for all shards.
const AllShards = -1

// Shard is the part of a plan that one trainer rank reads: lanes Index, Index+Of, … of Of
// shards.
type Shard struct {
	Index int `json:"index"` // 0 to Of-1; AllShards: not chosen
	Of    int `json:"of"`    // at least 1
}

// Every is the share of one DataLoader worker in the steps of a shard. Steps are numbered from the
// query's cursor; the worker takes the steps whose number modulo Of is Step.
type Every struct {
	Step int `json:"step"` // 0 to Of-1
	Of   int `json:"of"`   // at least 1
}

// Takes reports whether the worker takes a step, counted from the cursor.
func (e Every) Takes(step int64) bool { return step%int64(e.Of) == int64(e.Step) }

// Steps returns how many of the next steps, counted from the cursor, the worker takes.
func (e Every) Steps(steps int64) int64 {
	of, step := int64(e.Of), int64(e.Step)
	return (max(steps, step) - step + of - 1) / of
}

// Rows returns how many of a lane's remaining rows the worker takes, if each step takes q
// of them.
func (e Every) Rows(left, q int64) int64 {
	of, step := int64(e.Of), int64(e.Step)
	full := left / q
	rows := (max(full, step) - step + of - 1) / of * q
	if e.Takes(full) {
		rows += left % q
	}
	return rows
}

// Dense selects a column that packs several numeric columns into rows of float32
// (docs/spec/wire.md).
type Dense struct {
	Name    string
	Columns []Column // output names of the dataset, shaped but not renamed; at least one
	Fill    *float32 // replaces nulls; nil: a null is an error
}

// Selection is the selection of columns in a stream.
type Selection struct {
	Columns []Column // nil: all columns that Dense does not pack
	Dense   []Dense
}

// Selection returns the columns that the reading selects.
func (r Reading) Selection() Selection { return Selection{Columns: r.Columns, Dense: r.Dense} }

// denseForm is the JSON form of dense columns: an object from their names, in the order
// of the columns.
type denseForm []Dense

// MarshalJSON keeps the order of the columns, which a map would lose. It writes columns without a
// fill in the short form.
func (f denseForm) MarshalJSON() ([]byte, error) {
	o := newObject()
	for _, one := range f {
		var value any = one.Columns
		if one.Fill != nil {
			value = struct {
				Columns []Column `json:"columns"`
				Fill    float32  `json:"fill"`
			}{one.Columns, *one.Fill}
		}
		o.put(one.Name, value)
	}
	return o.bytes(), nil
}
