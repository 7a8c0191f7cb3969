package dataset

import (
	"slices"
	"strconv"
	"strings"
)

// must marks all of the fields as required.
func must[T any](fields []field[T]) []field[T] {
	for i := range fields {
		fields[i].must = true
	}
	return fields
}

// cursors decodes a cursor or a list of them. An empty list is a fault, because reading
// from the start instead of resuming would repeat rows.
func (d *decoder) cursors(at place) Cursors {
	if at.kind != kindList {
		return Cursors{d.cursor(at)}
	}
	if len(at.items) == 0 {
		d.fail(at.path, "the list has no cursor; leave the field out to read from the start")
	}
	return list(d, at, maxLanes, (*decoder).cursor)
}

// cursor decodes a cursor of this version. For a cursor of another version, the version
// is the only fault, since its fields are not known here.
func (d *decoder) cursor(at place) Cursor {
	out := Cursor{}
	if at.kind == kindObject {
		if !at.has("v") && !at.has("plan") {
			d.fail(at.path, "this is no cursor: it names neither its version nor its plan%s", formOf("cursor"))
			return out
		}
		if v := at.node.member("v"); v != nil && v.value.kind == kindWhole && v.value.text != strconv.Itoa(CursorVersion) {
			d.fail(join(at.path, "v"), "a cursor of version %s is not served by this version, which reads version %d; resume on a server of the version that wrote it",
				shorten(v.value.text, 20), CursorVersion)
			return out
		}
	}
	sum := ""
	optional := []field[Cursor]{
		{name: "uneven", read: func(d *decoder, at place, c *Cursor) { c.Uneven = d.yes(at) }},
		{name: "rows", read: func(d *decoder, at place, c *Cursor) { c.Given = d.whole(at, 0, maxInt64) }},
		{name: "requests", read: func(d *decoder, at place, c *Cursor) { c.Given, c.Requests = d.whole(at, 0, maxInt64), true }},
		{name: "counted", read: func(d *decoder, at place, c *Cursor) { c.Counted = d.counted(at) }},
		{name: "sum", read: func(d *decoder, at place, _ *Cursor) { sum = d.text(at) }},
	}
	rows := must(fieldsOf(rowsFields(), func(c *Cursor) *Rows { return &c.Rows }))
	for i := range rows {
		rows[i].must = !slices.Contains([]string{"sample", "since", "shuffle_window"}, rows[i].name)
	}
	object(d, at, &out, slices.Concat(must([]field[Cursor]{
		{name: "v", read: func(d *decoder, at place, c *Cursor) { c.Version = int(d.whole(at, CursorVersion, CursorVersion)) }},
		{name: "plan", read: func(d *decoder, at place, c *Cursor) { c.Plan = d.short(at, maxID) }},
		{name: "algorithm", read: func(d *decoder, at place, c *Cursor) { c.Algorithm = int(d.whole(at, 1, maxInt32)) }},
		{name: "dataset", read: func(d *decoder, at place, c *Cursor) { c.Dataset = d.short(at, maxID) }},
	}), rows, must([]field[Cursor]{
		{name: "pin", read: func(d *decoder, at place, c *Cursor) { c.Pin = d.pin(at) }},
		{name: "shard", read: func(d *decoder, at place, c *Cursor) { c.Shard = d.cursorShard(at) }},
		{name: "step", read: func(d *decoder, at place, c *Cursor) { c.Step = d.whole(at, 0, maxInt64) }},
		{name: "at", read: func(d *decoder, at place, c *Cursor) { c.At = list(d, at, maxLanes, (*decoder).position) }},
	}), optional))
	if out.Sample != nil {
		sample := out.Sample.defaults()
		out.Sample = &sample
	}
	d.checkGiven(at)
	if d.sound(at.path) {
		d.checkAt(at, out)
		d.checkWindows(at, out)
		d.checkCounted(at, out)
	}
	d.checkSum(at, out, sum)
	return out
}

// checkSum rejects a cursor whose checksum is missing or does not match its fields. The
// checksum covers the fields rather than the text, because clients may store a cursor
// with other white space and in another order. A cursor with other faults is rejected for
// those only.
func (d *decoder) checkSum(at place, c Cursor, sum string) {
	const remedy = "resume with the cursor exactly as it came with a batch, or start without it"
	path := join(at.path, "sum")
	switch {
	case at.kind != kindObject || !d.sound(at.path):
	case sum == "":
		d.fail(path, "missing: the cursor was edited, or a version wrote it that had no checksums; %s", remedy)
	case sum != checksum(encode(c.form())):
		d.fail(path, "the cursor was edited or damaged: its checksum does not fit the other fields; %s", remedy)
	}
}

// checkGiven reports a cursor that has neither rows nor requests, or both.
func (d *decoder) checkGiven(at place) {
	if at.kind != kindObject {
		return
	}
	switch rows, requests := at.has("rows"), at.has("requests"); {
	case !rows && !requests:
		d.fail(join(at.path, "rows"), "missing")
	case rows && requests:
		d.fail(join(at.path, "requests"), "a cursor has rows or requests, not both")
	}
}

// cursorShard decodes the shard of a cursor.
func (d *decoder) cursorShard(at place) Shard {
	out := d.shard(at, AllShards)
	if out.Index == AllShards && d.sound(at.path) {
		d.fail(join(at.path, "index"), "missing")
	}
	if at.kind == kindObject && at.node.member("of") == nil {
		d.fail(join(at.path, "of"), "missing")
	}
	return out
}

// yes decodes a field that is true or omitted.
func (d *decoder) yes(at place) bool {
	if at.kind != kindBool || at.text != "true" {
		d.fail(at.path, "must be true, or left out")
	}
	return true
}

func (d *decoder) position(at place) Position {
	var out Position
	object(d, at, &out, append(must([]field[Position]{
		{name: "lane", read: func(d *decoder, at place, p *Position) { p.Lane = int(d.whole(at, 0, maxLanes-1)) }},
		{name: "split", read: func(d *decoder, at place, p *Position) { p.Range = int(d.whole(at, 0, maxInt32)) }},
		{name: "row", read: func(d *decoder, at place, p *Position) { p.Row = d.whole(at, 0, maxInt64) }},
	}), field[Position]{name: "window", read: func(d *decoder, at place, p *Position) { p.Window = d.whole(at, 0, maxInt64) }}))
	return out
}

// checkWindows reports a cursor whose order, shuffle, shuffle_window and positions
// disagree on whether rows are permuted within windows.
func (d *decoder) checkWindows(at place, c Cursor) {
	shuffling, _ := c.Shuffle.Windows() // checked when shuffle was decoded
	if shuffling && !c.Order.IsShuffled() {
		d.fail(join(at.path, "shuffle"), "a plan whose order is %s permutes no %s", c.Order, c.Shuffle)
		return
	}
	if has := c.ShuffleWindow > 0; has != shuffling {
		d.fail(join(at.path, "shuffle_window"), "a cursor has it where shuffle is requests or rows, and there alone")
		return
	}
	positions := at.member(at.node.member("at"))
	for i := range c.At {
		one := positions.item(i)
		switch has := one.has("window"); {
		case has && !shuffling:
			d.fail(join(one.path, "window"), "the rows of this plan are not permuted within windows")
		case !has && shuffling:
			d.fail(join(one.path, "window"), "missing")
		}
	}
}

// checkAt reports a cursor that does not have exactly one position for each lane of its
// shard, in ascending order.
func (d *decoder) checkAt(at place, c Cursor) {
	if c.Lanes%c.Shard.Of != 0 {
		d.fail(join(at.path, "shard")+".of", "%d shards do not divide %d lanes", c.Shard.Of, c.Lanes)
		return
	}
	if want := c.Lanes / c.Shard.Of; len(c.At) != want {
		d.fail(join(at.path, "at"), "shard %d of %d reads %d of %d lanes, the cursor stands in %d",
			c.Shard.Index, c.Shard.Of, want, c.Lanes, len(c.At))
		return
	}
	for i, p := range c.At {
		if want := c.Shard.Index + i*c.Shard.Of; p.Lane != want {
			d.fail(join(at.path, "at")+indexed(i)+".lane", "must be lane %d of shard %d of %d, not %d",
				want, c.Shard.Index, c.Shard.Of, p.Lane)
		}
	}
}

// pin decodes a pin. Staging is never nil, even for a dataset without staging tables.
func (d *decoder) pin(at place) Pin {
	out := Pin{Staging: map[string]TablePin{}}
	object(d, at, &out, must([]field[Pin]{
		{name: "training", read: func(d *decoder, at place, p *Pin) { p.Training = d.tablePin(at) }},
		{name: "staging", read: func(d *decoder, at place, p *Pin) { d.stagingPins(at, p.Staging, d.tablePin) }},
	}))
	return out
}

// partialPin decodes the pin of a query, which may omit tables, and all fields of a table
// except the snapshot.
func (d *decoder) partialPin(at place) Pin {
	out := Pin{Staging: map[string]TablePin{}}
	object(d, at, &out, []field[Pin]{
		{name: "training", read: func(d *decoder, at place, p *Pin) { p.Training = d.partialTablePin(at) }},
		{name: "staging", read: func(d *decoder, at place, p *Pin) { d.stagingPins(at, p.Staging, d.partialTablePin) }},
	})
	return out
}

func (d *decoder) partialTablePin(at place) TablePin {
	if at.has("uuid") || at.has("schema") || at.has("mapping") {
		return d.tablePin(at)
	}
	var out TablePin
	object(d, at, &out, append(must([]field[TablePin]{
		{name: "snapshot", read: func(d *decoder, at place, p *TablePin) { p.Snapshot = d.whole(at, 1, maxInt64) }},
	}), field[TablePin]{name: "uuid"}, field[TablePin]{name: "schema"}, field[TablePin]{name: "mapping"}))
	return out
}

func (d *decoder) stagingPins(at place, into map[string]TablePin, read func(place) TablePin) {
	if at.kind != kindObject || len(at.members) > maxStaging {
		d.fail(at.path, "must be an object of at most %d tables by their names", maxStaging)
		return
	}
	for _, m := range at.members {
		p := at.member(m)
		if m.name == "" || len(m.name) > maxName || strings.ContainsFunc(m.name, isControl) {
			d.fail(p.path, "a staging table's name has 1 to %d bytes and no control characters", maxName)
		}
		into[m.name] = read(p)
	}
}

func (d *decoder) tablePin(at place) TablePin {
	var out TablePin
	object(d, at, &out, append(must([]field[TablePin]{
		{name: "uuid", read: func(d *decoder, at place, p *TablePin) { p.UUID = d.short(at, maxID) }},
		{name: "snapshot", read: func(d *decoder, at place, p *TablePin) { p.Snapshot = d.whole(at, NoSnapshot, maxInt64) }},
		{name: "schema", read: func(d *decoder, at place, p *TablePin) { p.Schema = int(d.whole(at, 0, maxInt32)) }},
	}), field[TablePin]{name: "mapping", read: func(d *decoder, at place, p *TablePin) { p.Mapping = d.short(at, maxID) }}))
	return out
}
