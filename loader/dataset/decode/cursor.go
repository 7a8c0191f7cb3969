package decode

import (
	"slices"
	"strconv"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// must marks all given fields as required.
func must[T any](fields []field[T]) []field[T] {
	for i := range fields {
		fields[i].must = true
	}
	return fields
}

// readCursors decodes a cursor or a list of them. An empty list is a fault, because reading
// from the start instead of resuming would repeat rows.
func readCursors(d *decoder, at place) dataset.Cursors {
	if at.kind != kindList {
		return dataset.Cursors{readCursor(d, at)}
	}
	if len(at.items) == 0 {
		d.fail(at.path, "the list is empty; leave the field out to read from the start")
	}
	return list(d, at, dataset.MaxLanes, readCursor)
}

// readCursor decodes a cursor of this version. For a cursor of another version, the version
// is the only fault, since its fields are not known here.
func readCursor(d *decoder, at place) dataset.Cursor {
	out := dataset.Cursor{}
	if at.kind == kindObject {
		if !at.has("v") && !at.has("plan") {
			d.fail(at.path, "this is not a cursor: it has neither a version nor a plan%s", formOf("cursor"))
			return out
		}
		if v := at.node.member("v"); v != nil && v.value.kind == kindWhole && v.value.text != strconv.Itoa(dataset.CursorVersion) {
			d.fail(at.pathOf("v"), "a cursor of version %s is not supported by this version, which reads version %d; resume on a server of the version that wrote it",
				fault.Shorten(v.value.text, 20), dataset.CursorVersion)
			return out
		}
	}
	sum := ""
	optional := []field[dataset.Cursor]{
		{name: "uneven", read: func(d *decoder, at place, c *dataset.Cursor) { c.Uneven = readYes(d, at) }},
		{name: "rows", read: func(d *decoder, at place, c *dataset.Cursor) { c.Given = d.whole(at, 0, maxCounted) }},
		{name: "requests", read: func(d *decoder, at place, c *dataset.Cursor) { c.Given, c.Requests = d.whole(at, 0, maxCounted), true }},
		{name: "counted", read: func(d *decoder, at place, c *dataset.Cursor) { c.Counted = readCounted(d, at) }},
		{name: "sum", read: func(d *decoder, at place, _ *dataset.Cursor) { sum = d.text(at) }},
	}
	rows := fieldsOf(rowsFields(), func(c *dataset.Cursor) *dataset.Rows { return &c.Rows })
	for i, f := range dataset.RowsFields() {
		rows[i].must = !f.Optional
	}
	object(d, at, &out, slices.Concat(must([]field[dataset.Cursor]{
		{name: "v", read: func(d *decoder, at place, c *dataset.Cursor) {
			c.Version = int(d.whole(at, dataset.CursorVersion, dataset.CursorVersion))
		}},
		{name: "plan", read: func(d *decoder, at place, c *dataset.Cursor) { c.Plan = d.short(at, maxID) }},
		{name: "algorithm", read: func(d *decoder, at place, c *dataset.Cursor) { c.Algorithm = int(d.whole(at, 1, maxInt32)) }},
		{name: "dataset", read: func(d *decoder, at place, c *dataset.Cursor) { c.Dataset = d.short(at, maxID) }},
	}), rows, must([]field[dataset.Cursor]{
		{name: "pin", read: func(d *decoder, at place, c *dataset.Cursor) { c.Pin = readPin(d, at) }},
		{name: "shard", read: func(d *decoder, at place, c *dataset.Cursor) { c.Shard = readCursorShard(d, at) }},
		{name: "step", read: func(d *decoder, at place, c *dataset.Cursor) { c.Step = d.whole(at, 0, maxCounted) }},
		{name: "at", read: func(d *decoder, at place, c *dataset.Cursor) {
			c.At = list(d, at, dataset.MaxLanes, readPosition)
		}},
	}), optional))
	checkGiven(d, at)
	if d.sound(at.path) {
		checkAt(d, at, out)
		checkWindows(d, at, out)
		checkCounted(d, at, out)
	}
	checkSum(d, at, out, sum)
	return out
}

// checkSum rejects a cursor whose checksum is missing or does not match its fields. The checksum
// covers the fields rather than the text, because clients may store a cursor with other white space
// and in another order. If a cursor has other faults, only those are reported.
func checkSum(d *decoder, at place, c dataset.Cursor, sum string) {
	const remedy = "resume with the cursor exactly as it was received, or start without it"
	path := at.pathOf("sum")
	switch {
	case at.kind != kindObject || !d.sound(at.path):
	case sum == "":
		d.fail(path, "missing: the cursor was edited, or written by a version without checksums; %s", remedy)
	case sum != c.Checksum():
		d.fail(path, "the cursor was edited or damaged: its checksum does not match the other fields; %s", remedy)
	}
}

// checkGiven reports a cursor that has neither rows nor requests, or both.
func checkGiven(d *decoder, at place) {
	if at.kind != kindObject {
		return
	}
	switch rows, requests := at.has("rows"), at.has("requests"); {
	case !rows && !requests:
		d.fail(at.pathOf("rows"), "missing")
	case rows && requests:
		d.fail(at.pathOf("requests"), "a cursor has rows or requests, not both")
	}
}

// readCursorShard decodes the shard of a cursor.
func readCursorShard(d *decoder, at place) dataset.Shard {
	out := readShard(d, at, dataset.AllShards)
	if out.Index == dataset.AllShards && d.sound(at.path) {
		d.fail(at.pathOf("index"), "missing")
	}
	if at.kind == kindObject && !at.has("of") {
		d.fail(at.pathOf("of"), "missing")
	}
	return out
}

// readYes decodes a field that is true or omitted.
func readYes(d *decoder, at place) bool {
	if at.kind != kindBool || at.text != "true" {
		d.fail(at.path, "must be true, or left out")
	}
	return true
}

func readPosition(d *decoder, at place) dataset.Position {
	var out dataset.Position
	object(d, at, &out, append(must([]field[dataset.Position]{
		{name: "lane", read: func(d *decoder, at place, p *dataset.Position) { p.Lane = int(d.whole(at, 0, dataset.MaxLanes-1)) }},
		{name: "split", read: func(d *decoder, at place, p *dataset.Position) { p.Range = int(d.whole(at, 0, maxInt32)) }},
		{name: "row", read: func(d *decoder, at place, p *dataset.Position) { p.Row = d.whole(at, 0, maxInt64) }},
	}), field[dataset.Position]{name: "window", read: func(d *decoder, at place, p *dataset.Position) { p.Window = d.whole(at, 0, maxInt64) }}))
	return out
}

// checkWindows reports a cursor whose order, shuffle, window, parts and positions
// disagree on whether rows are permuted within windows.
func checkWindows(d *decoder, at place, c dataset.Cursor) {
	shuffling, _ := c.Shuffle.Windows() // checked when shuffle was decoded
	if shuffling && !c.Order.IsShuffled() {
		d.fail(at.pathOf("shuffle"), "a plan with order %s does not shuffle %s", c.Order, c.Shuffle)
		return
	}
	for _, one := range shuffleFields(c.Rows) {
		if has := one.value > 0; has != shuffling {
			d.fail(at.pathOf(one.name), "a cursor has it if shuffle is requests or rows, and only then")
			return
		}
	}
	positions := at.member(at.node.member("at"))
	for i := range c.At {
		one := positions.item(i)
		switch has := one.has("window"); {
		case has && !shuffling:
			d.fail(one.pathOf("window"), "this plan does not shuffle within windows")
		case !has && shuffling:
			d.fail(one.pathOf("window"), "missing")
		}
	}
}

// checkAt reports a cursor that does not have exactly one position for each lane of its
// shard, in ascending order.
func checkAt(d *decoder, at place, c dataset.Cursor) {
	if c.Lanes%c.Shard.Of != 0 {
		d.fail(at.pathOf("shard")+".of", "%d shards do not divide %d lanes", c.Shard.Of, c.Lanes)
		return
	}
	if want := c.Lanes / c.Shard.Of; len(c.At) != want {
		d.fail(at.pathOf("at"), "shard %d of %d reads %d of %d lanes, but the cursor has %d",
			c.Shard.Index, c.Shard.Of, want, c.Lanes, len(c.At))
		return
	}
	for i, p := range c.At {
		if want := c.Shard.Index + i*c.Shard.Of; p.Lane != want {
			d.fail(at.pathOf("at")+indexed(i)+".lane", "must be lane %d of shard %d of %d, not %d",
				want, c.Shard.Index, c.Shard.Of, p.Lane)
		}
	}
}

func readCounted(d *decoder, at place) *dataset.Counted {
	var out dataset.Counted
	object(d, at, &out, must([]field[dataset.Counted]{
		{name: "rows", read: func(d *decoder, at place, c *dataset.Counted) { c.Rows = d.whole(at, 0, maxInt64) }},
		{name: "shortest", read: func(d *decoder, at place, c *dataset.Counted) { c.Shortest = d.whole(at, 0, maxCounted) }},
		{name: "longest", read: func(d *decoder, at place, c *dataset.Counted) { c.Longest = d.whole(at, 0, maxCounted) }},
		{name: "lanes", read: func(d *decoder, at place, c *dataset.Counted) {
			c.Lanes = list(d, at, dataset.MaxLanes, func(d *decoder, at place) int64 { return d.whole(at, 0, maxCounted) })
		}},
	}))
	return &out
}

// checkCounted reports counts that contradict the shard of their cursor.
func checkCounted(d *decoder, at place, c dataset.Cursor) {
	if c.Counted == nil || !d.sound(at.path) {
		return
	}
	if _, err := c.Counted.Counts(c.Lanes, c.Shard); err != nil {
		for _, f := range fault.As(err).Faults {
			d.fail(at.pathOf("counted"), "%s", f.Message)
		}
	}
}
