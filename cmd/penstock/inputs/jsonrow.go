package inputs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
)

// jsonRow appends the values of one JSON object to builders. It accepts values in the form in which
// penstock cat writes them.
type jsonRow struct {
	line  []byte
	in    *json.Decoder
	count func(values int) error // called with the number of values, before they are appended
}

// jsonValueError is the error for a line that is not a row.
type jsonValueError struct {
	syntax  string // why the line is not one JSON object; "" if it is one
	unknown bool   // whether no column or field has the path
	path    string // the path of the column or field
	text    string // the value
	of      arrow.DataType
}

// Error implements error.
func (e *jsonValueError) Error() string {
	return fmt.Sprintf("%s is not a value of %s: %s", e.text, e.path, e.syntax)
}

func newJSONRow(line []byte, count func(values int) error) *jsonRow {
	in := json.NewDecoder(bytes.NewReader(line))
	in.UseNumber()
	return &jsonRow{line: line, in: in, count: count}
}

// whole appends all values of the object. A column is null if the object does not have its field.
func (r *jsonRow) whole(columns []arrow.Field, builder func(i int) array.Builder) error {
	if !utf8.Valid(r.line) {
		return &jsonValueError{syntax: "is not UTF-8"}
	}
	begin, err := r.token()
	if err != nil {
		return err
	}
	if begin != json.Delim('{') {
		return &jsonValueError{syntax: "is not a JSON object"}
	}
	if err := r.object(columns, builder, ""); err != nil {
		return err
	}
	if _, err := r.in.Token(); !errors.Is(err, io.EOF) {
		return &jsonValueError{syntax: "continues after its JSON object"}
	}
	return nil
}

func (r *jsonRow) token() (json.Token, error) {
	token, err := r.in.Token()
	if err != nil {
		return nil, &jsonValueError{syntax: "is not JSON: " + err.Error()}
	}
	return token, nil
}

// object appends the fields of an object. The opening brace of the object was read before.
func (r *jsonRow) object(fields []arrow.Field, builder func(i int) array.Builder, path string) error {
	seen := make([]bool, len(fields))
	for r.in.More() {
		name, err := r.name()
		if err != nil {
			return err
		}
		i := 0
		for i < len(fields) && fields[i].Name != name {
			i++
		}
		if i == len(fields) {
			return &jsonValueError{unknown: true, path: path + name}
		}
		if seen[i] {
			return &jsonValueError{syntax: fmt.Sprintf("has two fields %q", path+name)}
		}
		seen[i] = true
		if err := r.value(builder(i), fields[i].Type, path+name); err != nil {
			return err
		}
	}
	for i, given := range seen {
		if !given {
			if err := r.null(builder(i), fields[i].Type); err != nil {
				return err
			}
		}
	}
	_, err := r.token() // the closing brace
	return err
}

// name reads the name of a field.
func (r *jsonRow) name() (string, error) {
	token, err := r.token()
	if err != nil {
		return "", err
	}
	return token.(string), nil //nolint:forcetypeassert // at this place, the decoder returns only strings
}

// null appends a null, and a null for each field of a struct.
func (r *jsonRow) null(b array.Builder, t arrow.DataType) error {
	if err := r.count(nullsOf(t)); err != nil {
		return err
	}
	b.AppendNull()
	return nil
}

// nullsOf returns how many values a null of a type counts as.
func nullsOf(t arrow.DataType) int {
	values := 1
	switch t := t.(type) {
	case *arrow.StructType:
		for _, f := range t.Fields() {
			values += nullsOf(f.Type)
		}
	case *arrow.FixedSizeBinaryType:
		values += t.ByteWidth / textValue
	}
	return values
}

// value reads a value and appends it.
func (r *jsonRow) value(b array.Builder, t arrow.DataType, path string) error {
	from := r.in.InputOffset()
	token, err := r.token()
	if err != nil {
		return err
	}
	if token == nil {
		return r.null(b, t)
	}
	if err := r.count(nullsOf(t)); err != nil {
		return err
	}
	known := false
	switch b := b.(type) {
	case *array.StructBuilder:
		if known = token == json.Delim('{'); known {
			b.Append(true)
			return r.object(t.(*arrow.StructType).Fields(), b.FieldBuilder, path+".") //nolint:forcetypeassert // the builder is of that type
		}
	case *array.MapBuilder:
		if known = token == json.Delim('['); known {
			b.Append(true)
			return r.pairs(b, t.(*arrow.MapType), path) //nolint:forcetypeassert // the builder is of that type
		}
	case *array.ListBuilder:
		if known = token == json.Delim('['); known {
			b.Append(true)
			return r.items(b.ValueBuilder(), t.(*arrow.ListType).Elem(), path+"[]") //nolint:forcetypeassert // the builder is of that type
		}
	default:
		known = r.scalar(b, token)
	}
	if !known {
		return &jsonValueError{path: path, of: t, text: r.shown(from)}
	}
	return nil
}

// shown returns the text of the value that begins at an offset, for an error. The text is
// shortened, and ends where the decoder has read to.
func (r *jsonRow) shown(from int64) string {
	const maxShown = 64
	text := strings.Trim(string(r.line[from:r.in.InputOffset()]), ":, \t")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}

// items appends the items of a list. The opening bracket of the list was read before.
func (r *jsonRow) items(b array.Builder, t arrow.DataType, path string) error {
	for r.in.More() {
		if err := r.value(b, t, path); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}

// pairs appends the entries of a map. In JSON, a map is a list of pairs.
func (r *jsonRow) pairs(b *array.MapBuilder, t *arrow.MapType, path string) error {
	for r.in.More() {
		from := r.in.InputOffset()
		token, err := r.token()
		if err != nil {
			return err
		}
		whole := token == json.Delim('[')
		if whole {
			if whole, err = r.pair(b, t, path); err != nil {
				return err
			}
		}
		if !whole {
			return &jsonValueError{path: path, of: t, text: r.shown(from)}
		}
	}
	_, err := r.token()
	return err
}

// pair appends the key and the value of a pair. The opening bracket of the pair was read before.
// pair returns false if the list does not have exactly two items.
func (r *jsonRow) pair(b *array.MapBuilder, t *arrow.MapType, path string) (bool, error) {
	nulls := b.KeyBuilder().NullN()
	if !r.in.More() {
		return false, nil
	}
	if err := r.value(b.KeyBuilder(), t.KeyType(), path); err != nil {
		return false, err
	}
	if b.KeyBuilder().NullN() > nulls {
		return false, &jsonValueError{path: path, of: t, text: "null, as a key,"}
	}
	if !r.in.More() {
		return false, nil
	}
	if err := r.value(b.ItemBuilder(), t.ItemType(), path); err != nil {
		return false, err
	}
	if r.in.More() {
		return false, nil
	}
	_, err := r.token()
	return true, err
}

// scalar appends a value that is not a list, map or struct, and reports whether the value has the
// type of the builder.
func (r *jsonRow) scalar(b array.Builder, token json.Token) bool {
	switch v := token.(type) {
	case bool:
		flags, ok := b.(*array.BooleanBuilder)
		if ok {
			flags.Append(v)
		}
		return ok
	case json.Number:
		switch b.(type) {
		case *array.Int32Builder, *array.Int64Builder, *array.Float32Builder, *array.Float64Builder, *array.Decimal128Builder:
			return appendText(b, v.String()) == nil
		}
	case string:
		return r.intact(v) && appendJSONText(b, v)
	}
	return false
}

// intact reports whether a text has the same characters as the line. It does not if an escape in
// the line has only half of a surrogate pair, which the decoder replaces by U+FFFD.
func (r *jsonRow) intact(text string) bool {
	return !strings.ContainsRune(text, utf8.RuneError) || bytes.ContainsRune(r.line, utf8.RuneError) || bytes.Contains(bytes.ToLower(r.line), []byte(`\ufffd`))
}

// appendJSONText appends a value whose JSON is a string, and reports whether the string is such a
// value.
func appendJSONText(b array.Builder, text string) bool {
	switch b := b.(type) {
	case *array.Int32Builder, *array.Int64Builder, *array.BooleanBuilder:
		return false
	case *array.Float32Builder, *array.Float64Builder:
		return (text == "NaN" || text == "Infinity" || text == "-Infinity") && appendText(b, text) == nil
	case *array.BinaryBuilder:
		value, err := base64.StdEncoding.DecodeString(text)
		b.Append(value)
		return err == nil
	case *array.FixedSizeBinaryBuilder:
		value, err := base64.StdEncoding.DecodeString(text)
		if id, no := uuid.Parse(text); no == nil && len(text) == len(id.String()) {
			value, err = id[:], nil
		}
		if err != nil || len(value) != b.Type().(*arrow.FixedSizeBinaryType).ByteWidth { //nolint:forcetypeassert // the builder is of that type
			return false
		}
		b.Append(value)
		return true
	}
	return appendText(b, text) == nil
}
