package dataset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// About describes a field of a query or a command, apart from access to its value.
type About struct {
	Name     string   // in queries, cursors and commands
	Also     []string // names of the same thing in other programs, in lower case
	Required bool
	Optional bool // cursors and differences leave the field out if it is not set
	Flag     Flag // the flag that sets the field; if its Help is "", there is no flag

	// The fields from Number to Names tell what a value is: a whole number from Low to High, true
	// or false, one of several words, a label (see JobLabel), a name, or a list of names. If none
	// of them is set, package decode has a function that decodes the field.
	Number    bool
	Low, High int64
	Truth     bool
	Words     []string
	Label     bool
	IsName    bool
	Names     bool

	perStream bool   // streams that share rows may differ in it
	sizing    bool   // it sets the size of batches; only one such field may be set
	after     string // the field that precedes it in canonical texts; "": the field that precedes it in QueryFields
}

// Flag describes the flag of a command that sets a field. Its name is that of the field, with
// hyphens.
type Flag struct {
	Shape string // placeholder of the value, such as FILE; "" for a number: the name of its Go type
	Help  string
	Each  bool // the flag is repeated for each item of a list; otherwise commas separate the items
}

// Field describes one field of S, which is Rows, Reading, Query or TableWrite. It has what
// commands, clients and documentation pages have to know about the field, and how its values are
// decoded, compared, copied and written.
type Field[S any] struct {
	About

	SetNumber func(into *S, value int64)    // set for a number
	SetTruth  func(into *S, value bool)     // set for true or false
	SetText   func(into *S, value string)   // set for a word, a label, a name or another text
	SetTexts  func(into *S, value []string) // set for a list of texts

	equal      func(a, b *S) bool
	assign     func(into, from *S)
	form       func(s *S) any // the value to write as JSON
	setDefault func(s *S)     // called if the field is not set; nil: no default, or it depends on other fields
}

// isSet reports whether s has a value of the field.
func (f Field[S]) isSet(s *S) bool { return !f.equal(s, new(S)) }

// text returns the value as errors show it, or "" for an optional field that is not set.
func (f Field[S]) text(s *S) string {
	if f.Optional && !f.isSet(s) {
		return ""
	}
	value := f.form(s)
	if text, ok := value.(string); ok {
		return text
	}
	return string(encode(value))
}

// setDefaults sets each unset field to its default if the default does not depend on other fields.
func setDefaults[S any](s *S, fields []Field[S]) {
	for _, f := range fields {
		if f.setDefault != nil {
			f.setDefault(s)
		}
	}
}

// number describes a field that is a whole number.
func number[S any, N int | int64](about About, low, high int64, at func(*S) *N) Field[S] {
	about.Number, about.Low, about.High, about.Flag.Shape = true, low, high, cmp.Or(about.Flag.Shape, fmt.Sprintf("%T", N(0)))
	f := scalar(about, at, func(v N) any { return v })
	f.SetNumber = func(into *S, value int64) { *at(into) = N(value) }
	return f
}

// word describes a field that is one of several words. A default of "" depends on other fields.
func word[S any, W ~string](about About, at func(*S) *W, byDefault W, words ...W) Field[S] {
	for _, w := range words {
		about.Words = append(about.Words, string(w))
	}
	f := text(about, at)
	f.setDefault = func(s *S) {
		if *at(s) == "" {
			*at(s) = byDefault
		}
	}
	return f
}

// truth describes a field that is true or false.
func truth[S any](about About, at func(*S) *bool) Field[S] {
	about.Truth = true
	f := scalar(about, at, func(v bool) any { return v })
	f.SetTruth = func(into *S, value bool) { *at(into) = value }
	return f
}

// choice describes a field that is true or false, and whose default depends on other fields.
func choice[S any](about About, at func(*S) **bool) Field[S] {
	about.Truth = true
	f := structured(about, at, func(v *bool) any { return v })
	f.SetTruth = func(into *S, value bool) { *at(into) = &value }
	return f
}

// label describes a field that is a label.
func label[S any](about About, at func(*S) *string) Field[S] {
	about.Label = true
	return text(about, at)
}

// name describes a field that is a name.
func name[S any](about About, at func(*S) *string) Field[S] {
	about.IsName = true
	return text(about, at)
}

// names describes a field that is a list of names.
func names[S any](about About, at func(*S) *[]string) Field[S] {
	about.Names = true
	return texts(about, at)
}

// texts describes a field that is a list of texts.
func texts[S any](about About, at func(*S) *[]string) Field[S] {
	f := structured(about, at, func(v []string) any { return v })
	f.SetTexts = func(into *S, value []string) { *at(into) = value }
	return f
}

// text describes a field that is a text.
func text[S any, T ~string](about About, at func(*S) *T) Field[S] {
	f := scalar(about, at, func(v T) any { return string(v) })
	f.SetText = func(into *S, value string) { *at(into) = T(value) }
	return f
}

// scalar describes a field whose values are compared by ==.
func scalar[S any, V comparable](about About, at func(*S) *V, form func(V) any) Field[S] {
	f := structured(about, at, form)
	f.equal = func(a, b *S) bool { return *at(a) == *at(b) }
	return f
}

// structured describes a field whose values are compared by their JSON.
func structured[S, V any](about About, at func(*S) *V, form func(V) any) Field[S] {
	return Field[S]{
		About:  about,
		equal:  func(a, b *S) bool { return string(encode(form(*at(a)))) == string(encode(form(*at(b)))) },
		assign: func(into, from *S) { *at(into) = *at(from) },
		form:   func(s *S) any { return form(*at(s)) },
	}
}

// fieldsOf converts the fields of a part of a value to fields of the value, without the functions that set them.
func fieldsOf[S, Part any](fields []Field[Part], part func(*S) *Part) []Field[S] {
	out := make([]Field[S], len(fields))
	for i, f := range fields {
		out[i] = Field[S]{
			About:  f.About,
			equal:  func(a, b *S) bool { return f.equal(part(a), part(b)) },
			assign: func(into, from *S) { f.assign(part(into), part(from)) },
			form:   func(s *S) any { return f.form(part(s)) },
		}
	}
	return out
}

// NewestAlgorithm is the newest version of the rules by which splits are cut, ordered and assigned to lanes (package plan).
const NewestAlgorithm = 2

// The limits of numbers in queries and cursors.
const (
	MaxLanes         = 4096    // lanes in a plan, and thus also shards and cursors
	MaxBatchRows     = 1 << 24 // rows or requests in a batch
	maxShuffleWindow = 1 << 24 // rows in a shuffle window
	maxShuffleParts  = 64      // parts of a run, each of which is read separately
)

// QueryFields returns all fields of a query, in the order in which pages and errors list them.
//
// This list is the only description of the fields. Decoding, canonical texts, digests, the
// comparison with a cursor, the key of streams that share rows, and the flags of commands derive
// from it. A test compares Python's fields and the tables of docs/queries.md with it.
func QueryFields() []Field[Query] {
	rows := func(q *Query) *Rows { return &q.Rows }
	return slices.Concat(fieldsOf(SourceFields(), rows), fieldsOf(RowsFields(), rows), fieldsOf(ReadingFields(), func(q *Query) *Reading { return &q.Reading }))
}

// SourceFields returns the fields that select tables. Cursors have a digest of the dataset and a whole pin
// instead.
func SourceFields() []Field[Rows] {
	with := About{Name: "with", Also: []string{"staging", "joins", "add", "extra"}, Flag: Flag{Shape: "TABLE", Help: "a staging table to add to the dataset, by name, or a whole staging entry as JSON; repeat it for several", Each: true}}
	snapshots := About{Name: "snapshots", Also: []string{"snapshot", "pin", "as_of"}, after: "lanes"}
	return []Field[Rows]{
		{
			About: About{Name: "dataset", Required: true},
			equal: func(_, _ *Rows) bool { return false }, // so that canonical texts always include it
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
func RowsFields() []Field[Rows] {
	filter := About{Name: "filter", Also: []string{"where", "predicate"}, Flag: Flag{Shape: "SQL", Help: "the rows to read, such as \"day >= DATE '2026-10-01' AND label = 1\""}}
	order := About{Name: "order", Flag: Flag{Shape: "stored|shuffled", Help: "the order of rows (default stored)"}}
	shuffle := About{Name: "shuffle", Flag: Flag{Shape: "requests|rows|splits", Help: "what a shuffled order permutes besides splits; splits: nothing else (default requests)"}}
	window := About{Name: "shuffle_window", Optional: true, Flag: Flag{Help: "how many stored rows are shuffled together (default 131072)"}}
	parts := About{Name: "shuffle_parts", Optional: true, Flag: Flag{Help: "from how many places of a bucket they come (default 8)"}}
	seed := About{Name: "seed", Flag: Flag{Help: "the seed of a shuffled order"}}
	epoch := About{Name: "epoch", Flag: Flag{Help: "the epoch of a shuffled order, each with an order of its own"}}
	lanes := About{Name: "lanes", Flag: Flag{Help: "the number of lanes (default: the number of shards)"}}
	return []Field[Rows]{
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
func ReadingFields() []Field[Reading] {
	columns := About{Name: "columns", Also: []string{"select", "features", "fields"}, Flag: Flag{Shape: "COLUMNS", Help: "the columns, by output name, separated by commas, or an array as in a query (default: all)"}}
	shard := About{Name: "shard", Also: []string{"rank", "world", "num_shards"}, Flag: Flag{Shape: "i/n", Help: "shard i of n, counted from 0; /n reads all n, one after the other"}}
	every := About{Name: "every", Also: []string{"workers", "num_workers"}, perStream: true, Flag: Flag{Shape: "w/n", Help: "the steps of DataLoader worker w of n, counted from 0"}}
	batchRows := About{Name: "batch_rows", sizing: true, Also: []string{"batch_size", "batchsize", "rows_per_batch"}, Flag: Flag{Help: "rows per batch"}}
	global := About{Name: "global_batch_rows", sizing: true, Also: []string{"global_batch_size"}}
	requests := About{Name: "batch_requests", sizing: true, Flag: Flag{Help: "requests per batch, instead of rows"}}
	limit := About{Name: "limit", Also: []string{"head", "max_rows", "rows"}, perStream: true, after: "tail"}
	tail := About{Name: "tail", Also: []string{"drop_last", "drop_remainder"}, Flag: Flag{Shape: "keep|drop", Help: "what happens to rows that do not fill a last step (default keep)"}}
	count := About{Name: "count", Flag: Flag{Shape: "estimate|exact", Help: "exact: count the rows first (default estimate)"}}
	cursor := About{Name: "cursor", perStream: true, after: "job", Flag: Flag{Shape: "JSON", Help: "the cursor to resume from, or @FILE"}}
	job := About{Name: "job", Also: []string{"label", "run", "run_id"}, perStream: true, Flag: Flag{Shape: "LABEL", Help: "a label for the stream in penstock status, logs and metrics"}}
	algorithm := About{Name: "algorithm", Optional: true, perStream: true, Flag: Flag{Help: "2 keeps the rows of shuffled lanes over epochs (default: that of the cursor, or 1)"}}
	return []Field[Reading]{
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
		number(algorithm, 1, NewestAlgorithm, func(r *Reading) *int { return &r.Algorithm }),
		word(About{Name: "endpoints"}, func(r *Reading) *Endpoints { return &r.Endpoints }, EndpointsShards, EndpointsShards, EndpointsSplits),
		label(job, func(r *Reading) *string { return &r.Job }),
	}
}

// inTexts returns the fields in the order of canonical texts.
func inTexts(fields []Field[Query]) []Field[Query] {
	out := slices.Clone(fields)
	at := func(name string) int {
		return slices.IndexFunc(out, func(f Field[Query]) bool { return f.Name == name })
	}
	for _, f := range fields {
		if f.after != "" {
			out = slices.Delete(out, at(f.Name), at(f.Name)+1)
			out = slices.Insert(out, at(f.after)+1, f)
		}
	}
	return out
}
