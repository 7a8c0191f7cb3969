package dataset

import (
	"math"
	"slices"
)

// The limits of numbers in queries and cursors.
const (
	MaxLanes         = 4096    // lanes in a plan, and thus also shards and cursors
	MaxBatchRows     = 1 << 24 // rows or requests in a batch
	maxShuffleWindow = 1 << 24 // rows in a shuffle window
	maxShuffleParts  = 64      // parts of a run, each of which is read on its own
)

// QueryFields returns all fields of a query, in the order in which pages and errors list them.
//
// A field is described here alone. Decoding, canonical texts, digests, the comparison with a cursor,
// the key of streams that share rows, and the flags of commands derive from this list; a test compares
// Python's fields and the tables of docs/queries.md with it.
func QueryFields() []QueryField[Query] {
	rows := func(q *Query) *Rows { return &q.Rows }
	return slices.Concat(fieldsOf(SourceFields(), rows), fieldsOf(RowsFields(), rows), fieldsOf(ReadingFields(), func(q *Query) *Reading { return &q.Reading }))
}

// SourceFields returns the fields that select tables. Cursors have a digest of the dataset and a whole pin
// instead.
func SourceFields() []QueryField[Rows] {
	with := About{Name: "with", Also: []string{"staging", "joins", "add", "extra"}, Flag: Flag{"TABLE", "a staging table to add to the dataset, by name, or a whole staging entry as JSON; repeat it for several"}}
	snapshots := About{Name: "snapshots", Also: []string{"snapshot", "pin", "as_of"}, after: "lanes"}
	return []QueryField[Rows]{
		{
			About: About{Name: "dataset", Required: true},
			equal: func(_, _ *Rows) bool { return false }, // all texts have it
			form:  (*Rows).source,
		},
		structured(with, func(r *Rows) *[]Staging { return &r.With }, func(all []Staging) any {
			var out []stagingForm
			for _, s := range all {
				out = append(out, s.form(nil))
			}
			return out
		}),
		structured(snapshots, func(r *Rows) *Pin { return &r.Pin }, Pin.form),
	}
}

// RowsFields returns the fields of Rows that queries and cursors have in the same form.
func RowsFields() []QueryField[Rows] {
	filter := About{Name: "filter", Also: []string{"where", "predicate"}, Flag: Flag{"SQL", "the rows to read, such as \"day >= DATE '2026-10-01' AND label = 1\""}}
	order := About{Name: "order", Flag: Flag{"ORDER", "stored or shuffled (default stored)"}}
	shuffle := About{Name: "shuffle", Flag: Flag{"WHAT", "what a shuffled order permutes besides splits: requests, rows, or splits alone (default requests)"}}
	window := About{Name: "shuffle_window", Optional: true, Flag: Flag{Help: "how many stored rows are shuffled together (default 131072)"}}
	parts := About{Name: "shuffle_parts", Optional: true, Flag: Flag{Help: "from how many places of a bucket they come (default 8)"}}
	seed := About{Name: "seed", Flag: Flag{Help: "the seed of a shuffled order"}}
	epoch := About{Name: "epoch", Flag: Flag{Help: "the epoch of a shuffled order, each with an order of its own"}}
	lanes := About{Name: "lanes", Flag: Flag{Help: "the number of lanes (default: the number of shards)"}}
	return []QueryField[Rows]{
		structured(filter, func(r *Rows) *Filter { return &r.Filter }, func(f Filter) any { return f.String() }),
		structured(About{Name: "sample", Optional: true}, func(r *Rows) **Sample { return &r.Sample }, func(s *Sample) any { return s.form() }),
		number(About{Name: "since", Optional: true}, 1, math.MaxInt64, func(r *Rows) *int64 { return &r.Since }),
		word(order, func(r *Rows) *Order { return &r.Order }, Stored, Stored, Shuffled),
		word(shuffle, func(r *Rows) *Shuffle { return &r.Shuffle }, "", ShuffleRequests, ShuffleRows, ShuffleSplits),
		number(window, 1, maxShuffleWindow, func(r *Rows) *int64 { return &r.ShuffleWindow }),
		number(parts, 1, maxShuffleParts, func(r *Rows) *int64 { return &r.ShuffleParts }),
		number(seed, math.MinInt64, math.MaxInt64, func(r *Rows) *int64 { return &r.Seed }),
		number(epoch, 0, math.MaxInt64, func(r *Rows) *int64 { return &r.Epoch }),
		number(lanes, 1, MaxLanes, func(r *Rows) *int { return &r.Lanes }),
	}
}

// ReadingFields returns the fields of Reading.
func ReadingFields() []QueryField[Reading] {
	columns := About{Name: "columns", Also: []string{"select", "features", "fields"}, Flag: Flag{"a,b", "the columns, by output name (default: all)"}}
	shard := About{Name: "shard", Also: []string{"rank", "world", "num_shards"}, Flag: Flag{"i/n", "shard i of n, counted from 0; /n reads all n, one after the other"}}
	every := About{Name: "every", Also: []string{"workers", "num_workers"}, perStream: true, Flag: Flag{"w/n", "the steps of DataLoader worker w of n, counted from 0"}}
	batchRows := About{Name: "batch_rows", Also: []string{"batch_size", "batchsize", "rows_per_batch"}, Flag: Flag{Help: "rows per batch"}}
	global := About{Name: "global_batch_rows", Also: []string{"global_batch_size"}}
	requests := About{Name: "batch_requests", Flag: Flag{Help: "requests per batch, instead of rows"}}
	limit := About{Name: "limit", Also: []string{"head", "max_rows", "rows"}, perStream: true, after: "tail"}
	tail := About{Name: "tail", Also: []string{"drop_last", "drop_remainder"}, Flag: Flag{"TAIL", "keep or drop the rows that do not fill a last step (default keep)"}}
	count := About{Name: "count", Flag: Flag{"COUNT", "estimate, or exact: count the rows first (default estimate)"}}
	cursor := About{Name: "cursor", perStream: true, after: "job", Flag: Flag{"JSON", "the cursor to resume from, or @FILE"}}
	job := About{Name: "job", Also: []string{"label", "run", "run_id"}, perStream: true, Flag: Flag{"LABEL", "a label for the stream in penstock status, logs and metrics"}}
	return []QueryField[Reading]{
		structured(columns, func(r *Reading) *[]Column { return &r.Columns }, func(c []Column) any { return c }),
		structured(About{Name: "dense"}, func(r *Reading) *[]Dense { return &r.Dense }, func(d []Dense) any { return denseForm(d) }),
		structured(shard, func(r *Reading) *Shard { return &r.Shard }, Shard.form),
		structured(every, func(r *Reading) *Every { return &r.Every }, func(e Every) any { return e }),
		number(batchRows, 1, MaxBatchRows, func(r *Reading) *int { return &r.BatchRows }),
		number(global, 1, MaxBatchRows, func(r *Reading) *int { return &r.GlobalBatchRows }),
		number(requests, 1, MaxBatchRows, func(r *Reading) *int { return &r.BatchRequests }),
		number(limit, 1, math.MaxInt64, func(r *Reading) *int64 { return &r.Limit }),
		word(tail, func(r *Reading) *Tail { return &r.Tail }, TailKeep, TailKeep, TailDrop),
		word(count, func(r *Reading) *Count { return &r.Count }, CountEstimate, CountEstimate, CountExact),
		structured(cursor, func(r *Reading) *Cursors { return &r.Cursor }, Cursors.form),
		word(About{Name: "wire"}, func(r *Reading) *Wire { return &r.Wire }, WirePlain, WirePlain, WireIndexed, WireAuto, WireGrouped),
		word(About{Name: "cache"}, func(r *Reading) *CacheUse { return &r.Cache }, CacheRead, CacheRead, CacheFill, CacheOff),
		word(About{Name: "endpoints"}, func(r *Reading) *Endpoints { return &r.Endpoints }, EndpointsShards, EndpointsShards, EndpointsSplits),
		label(job, func(r *Reading) *string { return &r.Job }),
	}
}

// inTexts returns the fields in the order of canonical texts.
func inTexts(fields []QueryField[Query]) []QueryField[Query] {
	out := slices.Clone(fields)
	at := func(name string) int {
		return slices.IndexFunc(out, func(f QueryField[Query]) bool { return f.Name == name })
	}
	for _, f := range fields {
		if f.after != "" {
			out = slices.Delete(out, at(f.Name), at(f.Name)+1)
			out = slices.Insert(out, at(f.after)+1, f)
		}
	}
	return out
}
