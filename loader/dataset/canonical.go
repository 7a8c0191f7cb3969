package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Canonical returns the dataset as compact JSON without its name: fields in a
// fixed order, those at their defaults left out, so that a field which a later
// version adds does not change the text of a dataset without it. A query with
// this text as its dataset has an equal Inline.
func (d Dataset) Canonical() []byte { return encode(d.Defaults().form()) }

// Digest names what the dataset means: 32 hexadecimal digits of a hash over
// its canonical form, filters in their canonical text. It does not depend on
// the dataset's name.
func (d Dataset) Digest() string {
	d = d.Defaults()
	d.Training.Filter = d.Training.Filter.canonical()
	for i := range d.Staging {
		d.Staging[i].Filter = d.Staging[i].Filter.canonical()
	}
	sum := sha256.Sum256(encode(d.form()))
	return hex.EncodeToString(sum[:16])
}

// Canonical returns the query as compact JSON: fields in a fixed order, those
// at their defaults left out. ParseQuery makes of it what Defaults makes of q.
func (q Query) Canonical() []byte {
	q = q.Defaults()
	defaults := Query{Shard: q.Shard, Cursor: q.Cursor}.Defaults()
	form := queryForm{
		Columns: q.Columns, Dense: q.Dense, Filter: unless(q.Filter.String(), defaults.Filter.String()), Since: unless(q.Since, defaults.Since), Snapshots: q.Snapshots.form(),
		Order: unless(q.Order, defaults.Order), Shuffle: unless(q.Shuffle, Query{Order: q.Order, Cursor: q.Cursor}.Defaults().Shuffle),
		ShuffleWindow: unless(q.ShuffleWindow, defaults.ShuffleWindow),
		Seed:          unless(q.Seed, defaults.Seed), Epoch: unless(q.Epoch, defaults.Epoch),
		Lanes: unless(q.Lanes, defaults.Lanes), Tail: unless(q.Tail, defaults.Tail), Count: unless(q.Count, defaults.Count),
		Wire: unless(q.Wire, defaults.Wire), BatchRows: q.BatchRows, GlobalBatchRows: q.GlobalBatchRows,
		BatchRequests: q.BatchRequests, Limit: q.Limit, Endpoints: unless(q.Endpoints, defaults.Endpoints),
	}
	if text := q.Sample.text(); text != defaults.Sample.text() {
		form.Sample = q.Sample.form()
	}
	if q.Inline != nil {
		form.Dataset = q.Inline.form()
	} else {
		form.Dataset = q.Dataset
	}
	if len(q.Cursor) > 0 && q.Snapshots.Agrees(q.Cursor[0].Pin) {
		form.Snapshots = nil
	}
	if unset := (Query{Cursor: q.Cursor}).Defaults(); q.Shard != unset.Shard {
		form.Shard = &shardForm{Of: q.Shard.Of}
		if q.Shard.Index != AllShards {
			form.Shard.Index = &q.Shard.Index
		}
	}
	if q.Every != defaults.Every {
		form.Every = &q.Every
	}
	switch len(q.Cursor) {
	case 0:
	case 1:
		form.Cursor = q.Cursor[0]
	default:
		form.Cursor = q.Cursor
	}
	return encode(form)
}

// JSON returns the cursor as clients get it (docs/spec/cursor.md): its canonical text,
// with the checksum of that as the last field.
func (c Cursor) JSON() []byte {
	text := encode(c.form())
	return slices.Concat(bytes.TrimSuffix(text, []byte("}")), []byte(`,"sum":"`+checksum(text)+`"}`))
}

// sumDigits is how many hexadecimal digits a cursor's checksum has.
const sumDigits = 16

// checksum returns the checksum of a cursor's canonical text, which has every field but the
// checksum: the first digits of its SHA-256. It finds edits and damage. It is no signature,
// as anyone can compute it.
func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:sumDigits/2])
}

// MarshalJSON gives the same text as JSON, save that the encoder around it may
// escape it otherwise.
func (c Cursor) MarshalJSON() ([]byte, error) { return c.JSON(), nil }

// UnmarshalJSON is parseCursor.
func (c *Cursor) UnmarshalJSON(text []byte) (err error) {
	*c, err = parseCursor(text)
	return err
}

// cursorFields has the fields of Cursor and none of its methods.
type cursorFields Cursor

// cursorForm has what was given in rows or in requests, positions in place of those of
// its cursor, and what was counted behind them.
type cursorForm struct {
	cursorFields
	Rows     *int64         `json:"rows,omitempty"`
	Requests *int64         `json:"requests,omitempty"`
	Uneven   bool           `json:"uneven,omitempty"`
	At       []positionForm `json:"at"`
	Counted  *Counted       `json:"counted,omitempty"`
}

// positionForm names a window in plans that have windows.
type positionForm struct {
	Lane   int    `json:"lane"`
	Range  int    `json:"split"`
	Window *int64 `json:"window,omitempty"`
	Row    int64  `json:"row"`
}

// form has lists and objects where c may have nil.
func (c Cursor) form() cursorForm {
	at := make([]positionForm, len(c.At))
	for i, p := range c.At {
		at[i] = positionForm{Lane: p.Lane, Range: p.Range, Row: p.Row}
		if c.ShuffleWindow > 0 {
			at[i].Window = &p.Window
		}
	}
	if c.Pin.Staging == nil {
		c.Pin.Staging = map[string]TablePin{}
	}
	form := cursorForm{cursorFields: cursorFields(c), Uneven: c.Uneven, At: at, Counted: c.Counted}
	if c.Requests {
		form.Requests = &c.Rows
	} else {
		form.Rows = &c.Rows
	}
	return form
}

type queryForm struct {
	Dataset       any         `json:"dataset"`
	Columns       []Column    `json:"columns,omitzero"`
	Dense         denseForm   `json:"dense,omitempty"`
	Filter        string      `json:"filter,omitempty"`
	Sample        *sampleForm `json:"sample,omitempty"`
	Since         int64       `json:"since,omitempty"`
	Snapshots     any         `json:"snapshots,omitempty"`
	Order         Order       `json:"order,omitempty"`
	Shuffle       Shuffle     `json:"shuffle,omitempty"`
	ShuffleWindow int64       `json:"shuffle_window,omitempty"`
	Seed          int64       `json:"seed,omitempty"`
	Epoch         int64       `json:"epoch,omitempty"`
	Lanes         int         `json:"lanes,omitempty"`
	Shard         *shardForm  `json:"shard,omitempty"`
	Every         *Every      `json:"every,omitempty"`
	BatchRows     int         `json:"batch_rows,omitempty"`
	Tail          Tail        `json:"tail,omitempty"`
	Count         Count       `json:"count,omitempty"`
	Wire          Wire        `json:"wire,omitempty"`
	Cursor        any         `json:"cursor,omitempty"`

	GlobalBatchRows int       `json:"global_batch_rows,omitempty"`
	BatchRequests   int       `json:"batch_requests,omitempty"`
	Limit           int64     `json:"limit,omitempty"`
	Endpoints       Endpoints `json:"endpoints,omitempty"`
}

type shardForm struct {
	Index *int `json:"index,omitempty"`
	Of    int  `json:"of"`
}

// MarshalJSON writes an object for Staging even where it is nil.
func (p Pin) MarshalJSON() ([]byte, error) {
	type form Pin
	if p.Staging == nil {
		p.Staging = map[string]TablePin{}
	}
	return encode(form(p)), nil
}

// UnmarshalJSON is parsePin.
func (p *Pin) UnmarshalJSON(text []byte) (err error) {
	*p, err = parsePin(text)
	return err
}

// unless returns the zero value, which forms leave out, for a default.
func unless[T comparable](v, preset T) T {
	var zero T
	if v == preset {
		return zero
	}
	return v
}

// encode writes compact JSON without escaping <, > and &, which filters are
// full of. Forms hold only text, numbers, lists and objects of them, which
// always encode; should that ever fail, an empty text is what no one reads back.
func encode(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// form is a pin as JSON has it: with all tables where it is whole, else with what it says.
func (p *Pin) form() any {
	switch {
	case p == nil:
		return nil
	case p.Whole():
		return p
	}
	type snapshot struct {
		Snapshot int64 `json:"snapshot"`
	}
	one := func(t TablePin) any {
		if t.Whole() {
			return t
		}
		return snapshot{Snapshot: t.Snapshot}
	}
	var form struct {
		Training any            `json:"training,omitempty"`
		Staging  map[string]any `json:"staging,omitempty"`
	}
	if p.Training != (TablePin{}) {
		form.Training = one(p.Training)
	}
	form.Staging = map[string]any{}
	for name, t := range p.Staging {
		form.Staging[name] = one(t)
	}
	return form
}
