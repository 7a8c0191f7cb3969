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

// RowsDigest is the Digest of the dataset without what decides no rows: its staging
// entries for which decides returns false, and the columns that are constant within a
// request.
func (d Dataset) RowsDigest(decides func(entry int) bool) string {
	d.Training.RequestLevel = nil
	staging := d.Staging
	d.Staging = nil
	for i, s := range staging {
		if decides(i) {
			d.Staging = append(d.Staging, s)
		}
	}
	return d.Digest()
}

// Canonical returns the query as compact JSON: fields in a fixed order, those
// at their defaults left out. ParseQuery makes of it what Defaults makes of q.
func (q Query) Canonical() []byte {
	q = q.Defaults()
	preset := Query{Reading: Reading{Shard: q.Shard, Cursor: q.Cursor, BatchRequests: q.BatchRequests}}.Defaults()
	preset.Shuffle = Query{Rows: Rows{Order: q.Order}, Reading: Reading{Cursor: q.Cursor}}.Defaults().Shuffle
	form := queryForm{rowsForm: q.formWithout(preset.Rows), readingForm: q.Reading.form(preset.Reading), Snapshots: q.Pin.form()}
	if len(q.Cursor) > 0 && q.Pin.within(q.Cursor[0].Pin) {
		form.Snapshots = nil
	}
	return encode(form)
}

// form returns the JSON form of a reading with its defaults set, without the fields that
// equal those of preset.
func (r Reading) form(preset Reading) readingForm {
	form := readingForm{
		Columns: r.Columns, Dense: r.Dense, BatchRows: r.BatchRows, GlobalBatchRows: r.GlobalBatchRows, BatchRequests: r.BatchRequests,
		Tail: unless(r.Tail, preset.Tail), Limit: r.Limit, Count: unless(r.Count, preset.Count), Wire: unless(r.Wire, preset.Wire),
		Endpoints: unless(r.Endpoints, preset.Endpoints),
	}
	if unset := (Reading{Cursor: r.Cursor}).defaults(); r.Shard != unset.Shard {
		form.Shard = &shardForm{Of: r.Shard.Of}
		if r.Shard.Index != AllShards {
			form.Shard.Index = &r.Shard.Index
		}
	}
	if r.Every != preset.Every {
		form.Every = &r.Every
	}
	switch len(r.Cursor) {
	case 0:
	case 1:
		form.Cursor = r.Cursor[0]
	default:
		form.Cursor = r.Cursor
	}
	return form
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

// cursorForm is the JSON of a cursor without its checksum.
type cursorForm struct {
	Version   int    `json:"v"`
	Plan      string `json:"plan"`
	Algorithm int    `json:"algorithm"`
	rowsForm
	Pin      Pin            `json:"pin"`
	Shard    Shard          `json:"shard"`
	Step     int64          `json:"step"`
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
	form := cursorForm{
		Version: c.Version, Plan: c.Plan, Algorithm: c.Algorithm, rowsForm: c.Rows.form(), Pin: c.Pin,
		Shard: c.Shard, Step: c.Step, Uneven: c.Uneven, At: at, Counted: c.Counted,
	}
	if c.Requests {
		form.Requests = &c.Given
	} else {
		form.Rows = &c.Given
	}
	return form
}

// queryForm is the JSON of a query.
type queryForm struct {
	rowsForm
	Snapshots any `json:"snapshots,omitempty"`
	readingForm
}

// readingForm is the JSON of a Reading.
type readingForm struct {
	Columns         []Column   `json:"columns,omitzero"`
	Dense           denseForm  `json:"dense,omitempty"`
	Shard           *shardForm `json:"shard,omitempty"`
	Every           *Every     `json:"every,omitempty"`
	BatchRows       int        `json:"batch_rows,omitempty"`
	GlobalBatchRows int        `json:"global_batch_rows,omitempty"`
	BatchRequests   int        `json:"batch_requests,omitempty"`
	Tail            Tail       `json:"tail,omitempty"`
	Limit           int64      `json:"limit,omitempty"`
	Count           Count      `json:"count,omitempty"`
	Wire            Wire       `json:"wire,omitempty"`
	Endpoints       Endpoints  `json:"endpoints,omitempty"`
	Cursor          any        `json:"cursor,omitempty"`
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

// form returns the JSON form of a pin: with all tables where it is whole, else with those
// that it names; nil for the zero Pin.
func (p Pin) form() any {
	switch {
	case p.IsZero():
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
