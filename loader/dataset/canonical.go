package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/penstock/penstock/internal/expr"
)

// Canonical returns the dataset as compact JSON without its name. Fields are in a fixed
// order, and fields at their defaults are omitted, so that adding a field in a later
// version does not change the text of a dataset without it. Parsing a query with this
// text as its dataset gives an equal Inline.
func (d Dataset) Canonical() []byte { return encode(d.Defaults().form()) }

// Digest returns 32 hexadecimal digits that identify what the dataset means: a hash of
// its canonical form, with filters and expressions in canonical text, and with the values of fitted lists instead of
// their files. It does not depend on the dataset's name.
func (d Dataset) Digest() string {
	d = d.Defaults()
	d.Training.Filter = d.Training.Filter.canonical()
	for i := range d.Staging {
		d.Staging[i].Filter = d.Staging[i].Filter.canonical()
	}
	d.Computed = slices.Clone(d.Computed)
	for i, c := range d.Computed {
		if parsed, err := expr.ParseValue(c.Expr); err == nil {
			d.Computed[i].Expr = parsed.String()
		}
	}
	d.Fitted = valuesOf(d.Fitted)
	sum := sha256.Sum256(encode(d.form()))
	return hex.EncodeToString(sum[:16])
}

// RowsDigest is the Digest of the dataset without the parts that do not affect its rows: the
// staging entries for which decides returns false, RequestLevel, AnyMatch, Limits, the computed
// columns and the fitted lists. A plan's filter has the expressions of the computed columns that the query's filter names.
func (d Dataset) RowsDigest(decides func(entry int) bool) string {
	d.Training.RequestLevel, d.Training.Limits, d.Computed, d.Fitted = nil, nil, nil, nil
	staging := d.Staging
	d.Staging = nil
	for i, s := range staging {
		if decides(i) {
			s.AnyMatch, s.Limits = false, nil // AnyMatch only silences a warning
			d.Staging = append(d.Staging, s)
		}
	}
	return d.Digest()
}

// Canonical returns the query as compact JSON, with fields in a fixed order and fields at
// their defaults omitted. Decoding it gives q.Defaults().
func (q Query) Canonical() []byte {
	q = q.Defaults()
	preset := q.preset()
	o := newObject()
	for _, f := range inTexts(QueryFields()) {
		if !f.equal(&q, &preset) {
			o.put(f.Name, f.form(&q))
		}
	}
	return o.bytes()
}

// preset returns a query with the values that decoding sets for fields that the text of q omits.
// The defaults of q must be set.
func (q Query) preset() Query {
	preset := Query{Reading: Reading{Shard: q.Shard, Cursor: q.Cursor}}.Defaults()
	preset.Shuffle = Query{Rows: Rows{Order: q.Order}, Reading: Reading{Cursor: q.Cursor}}.Defaults().Shuffle
	preset.Shard = Reading{Cursor: q.Cursor}.defaults().Shard
	preset.Cursor, preset.Pin = nil, Pin{}
	if len(q.Cursor) > 0 && q.Pin.within(q.Cursor[0].Pin) {
		preset.Pin = q.Pin
	}
	return preset
}

// JSON returns the cursor as clients receive it (docs/spec/cursor.md): its canonical
// text, with the checksum of that text as the last field.
func (c Cursor) JSON() []byte { return c.Text(&PlanText{}) }

// PlanText keeps the part of a cursor's text that is the same in all cursors of a stream: the plan,
// its rows and its pin. In a dataset with many staging entries, this part is most of the text. The
// zero PlanText is empty; the first call of Cursor.Text fills it.
type PlanText struct{ text []byte }

// Text returns the cursor as JSON. It takes the plan's part of the text from plan if a call of Text
// has filled plan before, so all cursors for which one PlanText is used must be of the same plan.
func (c Cursor) Text(plan *PlanText) []byte {
	text := c.canonical(plan)
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
func (c Cursor) Checksum() string { return checksum(c.canonical(&PlanText{})) }

// canonical returns the canonical text. Where c has a nil list or map, the text has an empty list
// or object.
func (c Cursor) canonical(plan *PlanText) []byte {
	o := newObject()
	if plan.text == nil {
		o.put("v", c.Version)
		o.put("plan", c.Plan)
		o.put("algorithm", c.Algorithm)
		o.putRows(c.Rows)
		o.put("pin", c.Pin)
		plan.text = slices.Clone(o.text.Bytes()[1:])
	} else {
		o.text.Write(plan.text)
	}
	o.put("shard", c.Shard)
	o.put("step", c.Step)
	if c.Requests {
		o.put("requests", c.Given)
	} else {
		o.put("rows", c.Given)
	}
	if c.Uneven {
		o.put("uneven", true)
	}
	o.put("at", c.positions())
	if c.Counted != nil {
		o.put("counted", c.Counted)
	}
	return o.bytes()
}

// MarshalJSON returns the same text as JSON. The encoder that calls it may escape
// characters differently.
func (c Cursor) MarshalJSON() ([]byte, error) { return c.JSON(), nil }

// positionForm is the JSON form of a Position. Window is set only in plans with windows.
type positionForm struct {
	Lane   int    `json:"lane"`
	Range  int    `json:"split"`
	Window *int64 `json:"window,omitempty"`
	Row    int64  `json:"row"`
}

// positions returns the JSON form of the cursor's positions.
func (c Cursor) positions() []positionForm {
	at := make([]positionForm, len(c.At))
	for i, p := range c.At {
		at[i] = positionForm{Lane: p.Lane, Range: p.Range, Row: p.Row}
		if c.ShuffleWindow > 0 {
			at[i].Window = &p.Window
		}
	}
	return at
}

// form returns the JSON form of the cursors of a query: nil if there is no cursor, and a single
// cursor as an object rather than a list.
func (cs Cursors) form() any {
	switch len(cs) {
	case 0:
		return nil
	case 1:
		return cs[0]
	}
	return cs
}

type shardForm struct {
	Index *int `json:"index,omitempty"`
	Of    int  `json:"of"`
}

// form returns the JSON form of a shard.
func (s Shard) form() any {
	out := shardForm{Of: s.Of}
	if s.Index != AllShards {
		out.Index = &s.Index
	}
	return out
}

// MarshalJSON writes Staging as an object even if it is nil.
func (p Pin) MarshalJSON() ([]byte, error) {
	type form Pin
	if p.Staging == nil {
		p.Staging = map[string]TablePin{}
	}
	return encode(form(p)), nil
}

// unless returns v. If v equals preset, it returns the zero value instead, which JSON forms omit.
func unless[T comparable](v, preset T) T {
	var zero T
	if v == preset {
		return zero
	}
	return v
}

// form returns the JSON form of a pin: all tables if the pin is whole, otherwise only the tables
// that the pin names. It returns nil for the zero Pin.
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
