package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Canonical returns the dataset as compact JSON without its name. Fields are in a fixed
// order, and fields at their defaults are omitted, so that adding a field in a later
// version does not change the text of a dataset without it. Parsing a query with this
// text as its dataset gives an equal Inline.
func (d Dataset) Canonical() []byte { return encode(d.Defaults().form()) }

// Digest returns 32 hexadecimal digits that identify what the dataset means: a hash of
// its canonical form, with filters in canonical text. It does not depend on the dataset's
// name.
func (d Dataset) Digest() string {
	d = d.Defaults()
	d.Training.Filter = d.Training.Filter.canonical()
	for i := range d.Staging {
		d.Staging[i].Filter = d.Staging[i].Filter.canonical()
	}
	sum := sha256.Sum256(encode(d.form()))
	return hex.EncodeToString(sum[:16])
}

// RowsDigest is the Digest of the dataset without the parts that do not affect its rows:
// staging entries for which decides returns false, the list of columns that are constant
// within a request, and whether few matches are worth a warning.
func (d Dataset) RowsDigest(decides func(entry int) bool) string {
	d.Training.RequestLevel = nil
	staging := d.Staging
	d.Staging = nil
	for i, s := range staging {
		if decides(i) {
			s.AnyMatch = false // it only silences a warning
			d.Staging = append(d.Staging, s)
		}
	}
	return d.Digest()
}

// Canonical returns the query as compact JSON, with fields in a fixed order and fields at
// their defaults omitted. Decoding it gives q.Defaults().
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

// form returns the JSON form of a reading whose defaults are set, without the fields that
// equal those of preset.
func (r Reading) form(preset Reading) readingForm {
	form := readingForm{
		Columns: r.Columns, Dense: r.Dense, BatchRows: r.BatchRows, GlobalBatchRows: r.GlobalBatchRows, BatchRequests: r.BatchRequests,
		Tail: unless(r.Tail, preset.Tail), Limit: r.Limit, Count: unless(r.Count, preset.Count), Wire: unless(r.Wire, preset.Wire),
		Cache: unless(r.Cache, preset.Cache), Endpoints: unless(r.Endpoints, preset.Endpoints), Job: r.Job,
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

// JSON returns the cursor as clients receive it (docs/spec/cursor.md): its canonical
// text, with the checksum of that text as the last field.
func (c Cursor) JSON() []byte { return c.Text(&PinText{}) }

// PinText is the JSON text of a pin, which all cursors of a stream have: with many staging entries, it is most of
// their text. The zero PinText has none yet.
type PinText struct{ text []byte }

// Text returns the cursor as JSON, whose pin has the given text: that of the first cursor with which Text was called.
func (c Cursor) Text(pin *PinText) []byte {
	if pin.text == nil {
		pin.text = encode(c.Pin)
	}
	text := c.canonical(pin.text)
	return slices.Concat(bytes.TrimSuffix(text, []byte("}")), []byte(`,"sum":"`+checksum(text)+`"}`))
}

// sumDigits is the number of hexadecimal digits in a cursor's checksum.
const sumDigits = 16

// checksum returns the checksum of a cursor's canonical text, which has every field
// except the checksum: the first digits of its SHA-256. It detects edits and damage. It
// is not a signature, since anyone can compute it.
func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:sumDigits/2])
}

// Checksum returns the checksum of the cursor's other fields, the last field of its text.
func (c Cursor) Checksum() string { return checksum(c.canonical(encode(c.Pin))) }

// canonical returns the canonical text, given that of the pin.
func (c Cursor) canonical(pin []byte) []byte {
	const before, empty = `"pin":`, `0`
	text := encode(c.form())
	at := bytes.Index(text, []byte(before+empty)) + len(before) // within strings, a quote has a backslash before it
	return slices.Concat(text[:at], pin, text[at+len(empty):])
}

// MarshalJSON returns the same text as JSON. The encoder that calls it may escape
// characters differently.
func (c Cursor) MarshalJSON() ([]byte, error) { return c.JSON(), nil }

// cursorForm is the JSON form of a cursor without its checksum.
type cursorForm struct {
	Version   int    `json:"v"`
	Plan      string `json:"plan"`
	Algorithm int    `json:"algorithm"`
	rowsForm
	Pin      int            `json:"pin"` // 0, in place of the text of the pin
	Shard    Shard          `json:"shard"`
	Step     int64          `json:"step"`
	Rows     *int64         `json:"rows,omitempty"`
	Requests *int64         `json:"requests,omitempty"`
	Uneven   bool           `json:"uneven,omitempty"`
	At       []positionForm `json:"at"`
	Counted  *Counted       `json:"counted,omitempty"`
}

// positionForm is the JSON form of a Position. Window is set only in plans with windows.
type positionForm struct {
	Lane   int    `json:"lane"`
	Range  int    `json:"split"`
	Window *int64 `json:"window,omitempty"`
	Row    int64  `json:"row"`
}

// form returns the JSON form of a cursor. It has lists and objects where c may have nil.
func (c Cursor) form() cursorForm {
	at := make([]positionForm, len(c.At))
	for i, p := range c.At {
		at[i] = positionForm{Lane: p.Lane, Range: p.Range, Row: p.Row}
		if c.ShuffleWindow > 0 {
			at[i].Window = &p.Window
		}
	}
	form := cursorForm{
		Version: c.Version, Plan: c.Plan, Algorithm: c.Algorithm, rowsForm: c.Rows.form(),
		Shard: c.Shard, Step: c.Step, Uneven: c.Uneven, At: at, Counted: c.Counted,
	}
	if c.Requests {
		form.Requests = &c.Given
	} else {
		form.Rows = &c.Given
	}
	return form
}

// queryForm is the JSON form of a query.
type queryForm struct {
	rowsForm
	Snapshots any `json:"snapshots,omitempty"`
	readingForm
}

// readingForm is the JSON form of a Reading.
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
	Cache           CacheUse   `json:"cache,omitempty"`
	Endpoints       Endpoints  `json:"endpoints,omitempty"`
	Job             string     `json:"job,omitempty"`
	Cursor          any        `json:"cursor,omitempty"`
}

type shardForm struct {
	Index *int `json:"index,omitempty"`
	Of    int  `json:"of"`
}

// MarshalJSON writes Staging as an object even if it is nil.
func (p Pin) MarshalJSON() ([]byte, error) {
	type form Pin
	if p.Staging == nil {
		p.Staging = map[string]TablePin{}
	}
	return encode(form(p)), nil
}

// unless returns v, or the zero value, which forms omit, if v equals preset.
func unless[T comparable](v, preset T) T {
	var zero T
	if v == preset {
		return zero
	}
	return v
}

// encode returns v as compact JSON. It does not escape <, > and &, which are common in
// filters. Forms hold only text, numbers, and lists and objects of them, so encoding
// cannot fail. If it did, the empty result could not be decoded.
func encode(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// form returns the JSON form of a pin: all tables if the pin is whole, otherwise the
// tables that it names. It returns nil for the zero Pin.
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
