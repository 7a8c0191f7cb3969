package dataset

import (
	"bytes"
	"encoding/json"
)

// objectText writes a compact JSON object whose members have a fixed order. It does not escape <, >
// and &, which are common in filters. Values hold only text, numbers, and lists and objects of
// these, so encoding cannot fail. If it did fail, the result would be empty, and decoding it would
// report an error.
type objectText struct {
	text    bytes.Buffer
	encoder *json.Encoder // writes to text
	failed  bool
}

// newObject returns an object without members.
func newObject() *objectText {
	o := newWriter()
	o.text.WriteByte('{')
	return o
}

// newWriter returns an object whose text does not have its opening brace yet.
func newWriter() *objectText {
	o := &objectText{}
	o.encoder = json.NewEncoder(&o.text)
	o.encoder.SetEscapeHTML(false)
	return o
}

// put adds a member.
func (o *objectText) put(name string, value any) {
	o.name(name)
	o.encode(value)
}

// putRows adds the fields of a plan's rows in the form that cursors have, without the pin.
func (o *objectText) putRows(r Rows) {
	o.put("dataset", r.Dataset)
	for _, f := range RowsFields() {
		if !f.Optional || f.isSet(&r) {
			o.put(f.Name, f.form(&r))
		}
	}
}

// bytes returns the object. No member may be added after that.
func (o *objectText) bytes() []byte {
	if o.failed {
		return nil
	}
	o.text.WriteByte('}')
	return o.text.Bytes()
}

func (o *objectText) name(name string) {
	if o.text.Len() > 1 {
		o.text.WriteByte(',')
	}
	o.encode(name)
	o.text.WriteByte(':')
}

func (o *objectText) encode(value any) {
	if o.encoder.Encode(value) != nil {
		o.failed = true
		return
	}
	o.text.Truncate(o.text.Len() - 1) // the line break
}

// encode returns a value as compact JSON, in the form of an object's members.
func encode(value any) []byte {
	o := newWriter()
	o.encode(value)
	return o.text.Bytes()
}
