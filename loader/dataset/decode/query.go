package decode

import (
	"fmt"
	"math"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

const (
	maxInt64 = math.MaxInt64
	minInt64 = math.MinInt64
	maxInt32 = math.MaxInt32
)

// readQuery decodes a query and sets its defaults.
func readQuery(d *decoder, at place) dataset.Query {
	out := dataset.Query{}
	object(d, at, &out, slices.Concat(queryFields(), unservedFields()))
	given := out
	out = out.Defaults()
	if out.Inline != nil && len(out.With) > 0 {
		d.fail(at.pathOf("with"), "adds entries to a dataset of the server, and this one is inline; add them to its staging")
	}
	checkNames(d, at.pathOf("with"), out.With)
	checkResume(d, at, given)
	checkShuffle(d, at, out)
	checkSteps(d, at, given, out)
	checkReading(d, at, out)
	return out
}

// queryFields are the fields of a query that this version supports.
func queryFields() []field[dataset.Query] {
	return slices.Concat(
		fieldsOf(slices.Concat(sourceFields(), rowsFields()), func(q *dataset.Query) *dataset.Rows { return &q.Rows }),
		fieldsOf(readingFields(), func(q *dataset.Query) *dataset.Reading { return &q.Reading }),
	)
}

// fieldsOf converts the fields of a part of a value to fields of the value.
func fieldsOf[T, Part any](fields []field[Part], part func(*T) *Part) []field[T] {
	out := make([]field[T], len(fields))
	for i, f := range fields {
		out[i] = field[T]{name: f.name, must: f.must, also: f.also}
		if f.read != nil {
			out[i].read = func(d *decoder, at place, into *T) { f.read(d, at, part(into)) }
		}
	}
	return out
}

// readFunc decodes the value of a field.
type readFunc[T any] func(d *decoder, at place, into *T)

// described returns the decoders of the described fields. own has the decoders of fields for which
// About gives no kind of value, or for which another form is also accepted.
func described[T any](fields []dataset.Field[T], own map[string]readFunc[T]) []field[T] {
	out := make([]field[T], len(fields))
	for i, f := range fields {
		out[i] = field[T]{name: f.Name, must: f.Required, also: f.Also}
		switch {
		case own[f.Name] != nil:
			out[i].read = own[f.Name]
		case f.Number:
			out[i].read = func(d *decoder, at place, into *T) { f.SetNumber(into, d.whole(at, f.Low, f.High)) }
		case f.Truth:
			out[i].read = func(d *decoder, at place, into *T) { f.SetTruth(into, d.truth(at)) }
		case f.IsName:
			out[i].read = func(d *decoder, at place, into *T) { f.SetText(into, d.name(at)) }
		case f.Names:
			out[i].read = func(d *decoder, at place, into *T) { f.SetTexts(into, d.names(at)) }
		case f.Words != nil:
			out[i].read = func(d *decoder, at place, into *T) { f.SetText(into, choice(d, at, f.Words)) }
		case f.Label:
			out[i].read = func(d *decoder, at place, into *T) { f.SetText(into, readLabel(d, at)) }
		}
	}
	return out
}

// sourceFields are the fields that select the tables of a query.
func sourceFields() []field[dataset.Rows] {
	return described(dataset.SourceFields(), map[string]readFunc[dataset.Rows]{
		"dataset": readQueryDataset,
		"with": func(d *decoder, at place, out *dataset.Rows) {
			out.With = list(d, at, dataset.MaxStaging, readStaging)
		},
		"snapshots": func(d *decoder, at place, out *dataset.Rows) { out.Pin = readPartialPin(d, at) },
	})
}

// rowsFields are the fields of Rows that have the same form in queries and cursors.
func rowsFields() []field[dataset.Rows] {
	return described(dataset.RowsFields(), map[string]readFunc[dataset.Rows]{
		"filter": func(d *decoder, at place, out *dataset.Rows) { out.Filter = d.filter(at) },
		"sample": func(d *decoder, at place, out *dataset.Rows) { out.Sample = readSample(d, at) },
		"since":  func(d *decoder, at place, out *dataset.Rows) { out.Since = d.snapshotID(at, 1) },
	})
}

// readingFields are the fields of Reading.
func readingFields() []field[dataset.Reading] {
	return described(dataset.ReadingFields(), map[string]readFunc[dataset.Reading]{
		"columns": func(d *decoder, at place, out *dataset.Reading) { out.Columns = readQueryColumns(d, at) },
		"dense":   func(d *decoder, at place, out *dataset.Reading) { out.Dense = readDense(d, at) },
		"shard":   func(d *decoder, at place, out *dataset.Reading) { out.Shard = readShard(d, at, dataset.AllShards) },
		"every":   func(d *decoder, at place, out *dataset.Reading) { out.Every = readEvery(d, at) },
		"cursor":  func(d *decoder, at place, out *dataset.Reading) { out.Cursor = readCursors(d, at) },
	})
}

// unservedFields are specified fields that this version does not support.
func unservedFields() []field[dataset.Query] {
	return []field[dataset.Query]{
		{name: "start"},
	}
}

// readQueryDataset decodes the name of a dataset, or an inline dataset.
func readQueryDataset(d *decoder, at place, out *dataset.Rows) {
	switch at.kind {
	case kindText:
		out.Dataset = d.name(at)
	case kindObject:
		inline := readDataset(d, at)
		if len(inline.Fitted) > 0 {
			d.fail(at.pathOf("fitted"), "a server reads the files of fitted lists only for the datasets of its config file; write the values in the expression, as in bucketize(price, [1, 5])")
		}
		out.Inline = &inline
	case kindNull, kindBool, kindWhole, kindNumber, kindTime, kindList:
		d.fail(at.path, "must be a dataset's name or a dataset, not %s", at.kind)
	}
}

// readQueryColumns decodes the columns of a query.
func readQueryColumns(d *decoder, at place) []dataset.Column {
	out := readColumns(d, at)
	if at.kind == kindList && len(at.items) == 0 {
		d.fail(at.path, "must name at least one column; leave the field out for all")
	}
	checkOutputs(d, at.path, "", out)
	return out
}

// readLabel decodes a label.
func readLabel(d *decoder, at place) string {
	out := d.text(at)
	if at.kind == kindText && !dataset.JobLabel(out) {
		d.fail(at.path, "must be 1 to %d letters, digits and characters of ._-/:@+=", dataset.MaxJob)
	}
	return out
}

// readShard decodes {index, of}. The index is unset if it is omitted.
func readShard(d *decoder, at place, unset int) dataset.Shard {
	out := dataset.Shard{Index: unset, Of: 1}
	object(d, at, &out, []field[dataset.Shard]{
		{name: "index", read: func(d *decoder, at place, out *dataset.Shard) { out.Index = int(d.whole(at, 0, dataset.MaxLanes)) }},
		{name: "of", read: func(d *decoder, at place, out *dataset.Shard) { out.Of = int(d.whole(at, 1, dataset.MaxLanes)) }},
	})
	if d.sound(at.path) && out.Index >= out.Of {
		d.fail(at.pathOf("index"), "shard %d is out of range for %s; the last one is %d", out.Index, fault.Count(out.Of, "shard"), out.Of-1)
	}
	return out
}

// checkShuffle reports shuffle, seed, shuffle_window and shuffle_parts if they cannot be combined with
// the order or the shuffle.
func checkShuffle(d *decoder, at place, q dataset.Query) {
	if !d.sound(at.pathOf("order"), at.pathOf("shuffle"), at.pathOf("shuffle_window"), at.pathOf("shuffle_parts"), at.pathOf("cursor")) {
		return
	}
	windows := q.Shuffle == "" // the default, which permutes rows within windows
	if !windows {
		windows, _ = q.Shuffle.Windows() // checked when shuffle was decoded
	}
	switch {
	case windows && !q.Order.IsShuffled():
		d.fail(at.pathOf("shuffle"), "%s has no effect with order: %s; add order: shuffled", q.Shuffle, q.Order)
	case q.Seed != 0 && !q.Order.IsShuffled() && len(q.Cursor) == 0 && d.sound(at.pathOf("seed")):
		d.fail(at.pathOf("seed"), "has no effect with order: %s; add order: shuffled", q.Order)
	}
	for _, one := range shuffleFields(q.Rows) {
		switch {
		case one.value == 0:
		case !q.Order.IsShuffled():
			d.fail(at.pathOf(one.name), "has no effect with order: %s; add order: shuffled", q.Order)
		case !windows:
			d.fail(at.pathOf(one.name), "has no effect with shuffle: %s, only with requests or rows", q.Shuffle)
		}
	}
}

// shuffleField is a field of Rows that describes windows.
type shuffleField struct {
	name  string
	value int64
}

func shuffleFields(r dataset.Rows) []shuffleField {
	return []shuffleField{{"shuffle_window", r.ShuffleWindow}, {"shuffle_parts", r.ShuffleParts}}
}

// readEvery decodes {step, of}.
func readEvery(d *decoder, at place) dataset.Every {
	var out dataset.Every
	object(d, at, &out, must([]field[dataset.Every]{
		{name: "step", read: func(d *decoder, at place, out *dataset.Every) { out.Step = int(d.whole(at, 0, maxWorkers)) }},
		{name: "of", read: func(d *decoder, at place, out *dataset.Every) { out.Of = int(d.whole(at, 1, maxWorkers)) }},
	}))
	if d.sound(at.path) && out.Step >= out.Of {
		d.fail(at.pathOf("step"), "step %d is out of range for %d DataLoader workers; the last one is %d", out.Step, out.Of, out.Of-1)
	}
	return out
}

// checkSteps reports numbers of lanes, shards and rows that do not divide each other.
func checkSteps(d *decoder, at place, given, q dataset.Query) {
	if !d.sound(at.pathOf("lanes"), at.pathOf("shard"), at.pathOf("cursor")) {
		return
	}
	if q.Lanes%q.Shard.Of != 0 {
		message := fmt.Sprintf("%d shards do not divide %s; ", q.Shard.Of, fault.Count(q.Lanes, "lane"))
		more := (q.Lanes/q.Shard.Of + 1) * q.Shard.Of
		switch {
		case given.Lanes == 0 && len(q.Cursor) > 0:
			message += "the cursor sets the lanes: resume with a number of shards that divides them"
		case more <= dataset.MaxLanes:
			message += fmt.Sprintf("set lanes to a multiple of %d, such as %d", q.Shard.Of, more)
		default:
			message += fmt.Sprintf("set lanes to %d", dataset.MaxLanes/q.Shard.Of*q.Shard.Of)
		}
		d.fail(at.pathOf("shard")+".of", "%s", message)
		return
	}
	perStep := q.Lanes / q.Shard.Of
	checkPerLane(d, at.pathOf("batch_rows"), "row", q.BatchRows, perStep)
	checkPerLane(d, at.pathOf("batch_requests"), "request", q.BatchRequests, perStep)
}

// checkPerLane reports a batch that cannot be divided equally among the lanes of a shard.
func checkPerLane(d *decoder, path, what string, n, lanes int) {
	if !d.sound(path) || n%lanes == 0 {
		return
	}
	nearest := max(1, (n+lanes/2)/lanes) * lanes
	if nearest > dataset.MaxBatchRows {
		nearest -= lanes
	}
	d.fail(path, "%s cannot be divided among the %d lanes of a shard; use a multiple of %d, such as %d", fault.Count(n, what), lanes, lanes, nearest)
}

// checkReading reports conflicts among the fields that select a part of a plan. It skips
// fields that have faults already.
func checkReading(d *decoder, at place, q dataset.Query) {
	if d.sound(at.pathOf("lanes"), at.pathOf("shard"), at.pathOf("cursor"), at.pathOf("tail")) {
		d.conflicts(at, q.Check())
	}
}

// conflicts reports the faults of an error about fields of an object, except for those of fields that have faults already.
func (d *decoder) conflicts(at place, err error) {
	if err == nil {
		return
	}
	for _, f := range fault.As(err).Faults {
		if f.Field = at.pathOf(f.Field); d.sound(f.Field) {
			d.add(0, f)
		}
	}
}
