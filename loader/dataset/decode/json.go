package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Query decodes a query from JSON and sets its defaults. All faults are reported in one
// Invalid error.
func Query(text []byte) (dataset.Query, error) {
	return parse(text, "query", readQuery)
}

// Cursor decodes a cursor from JSON. No field that this version writes may be missing.
func Cursor(text []byte) (dataset.Cursor, error) {
	return parse(text, "cursor", readCursor)
}

// parse decodes a JSON text. what names the text in errors.
func parse[T any](text []byte, what string, decode func(*decoder, place) T) (T, error) {
	d := newDecoder()
	var out, none T
	if root := d.json(text, what); root != nil {
		out = decode(d, place{root, ""})
	}
	if err := d.err(); err != nil {
		return none, fault.Op(err, "read the %s", what)
	}
	return out, nil
}

// json parses a JSON text into a tree. It returns nil if the text is invalid.
func (d *decoder) json(text []byte, what string) *node {
	if len(text) > maxBytes {
		d.fail("", "the %s has %d bytes, the limit is %d", what, len(text), maxBytes)
		return nil
	}
	if !utf8.Valid(text) {
		d.fail("", "the %s is not valid UTF-8", what)
		return nil
	}
	// Check the syntax first, so that the walk below cannot fail. The decoder's tokens
	// alone would miss text after the value.
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		d.syntax(text, what, err)
		return nil
	}
	r := jsonReader{decoder: d, tokens: json.NewDecoder(bytes.NewReader(text))}
	r.tokens.UseNumber()
	root := r.value("", 0)
	if r.stop {
		return nil
	}
	return root
}

// syntax reports a syntax error of JSON, with its position in characters.
func (d *decoder) syntax(text []byte, what string, err error) {
	var wrong *json.SyntaxError
	message := "the %s is not JSON: %s"
	if strings.TrimSpace(string(text)) == "" {
		d.fail("", "the %s is empty", what)
		return
	}
	if !errors.As(err, &wrong) {
		d.fail("", message, what, err.Error())
		return
	}
	before := text[:min(max(int(wrong.Offset), 0), len(text))]
	d.add(0, fault.Field{Position: max(utf8.RuneCount(before), 1), Message: fmt.Sprintf(message, what, wrong.Error())})
}

// jsonReader builds the tree of a text that is valid JSON.
type jsonReader struct {
	*decoder
	tokens *json.Decoder
	nodes  int
	stop   bool // too deep or too large: the fault is recorded, and the rest is not read
}

func (r *jsonReader) value(path string, depth int) *node {
	r.nodes++
	token, err := r.tokens.Token()
	switch {
	case r.stop:
		return &node{}
	case err != nil:
		return r.broken(path, err)
	case depth > maxDepth || r.nodes > maxNodes:
		r.stop = true
		r.tooLarge(path, maxNodes)
		return &node{}
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return r.list(path, depth)
		}
		return r.object(path, depth)
	case string:
		return &node{kind: kindText, text: t}
	case json.Number:
		if strings.ContainsAny(t.String(), ".eE") {
			return &node{kind: kindNumber, text: t.String()}
		}
		return &node{kind: kindWhole, text: t.String()}
	case bool:
		return &node{kind: kindBool, text: strconv.FormatBool(t)}
	default:
		return &node{kind: kindNull}
	}
}

func (r *jsonReader) list(path string, depth int) *node {
	n := &node{kind: kindList}
	for !r.stop && r.tokens.More() {
		n.items = append(n.items, r.value(path+indexed(len(n.items)), depth+1))
	}
	r.close()
	return n
}

func (r *jsonReader) object(path string, depth int) *node {
	n := &node{kind: kindObject}
	seen := map[string]bool{}
	for !r.stop && r.tokens.More() {
		token, err := r.tokens.Token()
		name, isText := token.(string)
		if err != nil || !isText {
			return r.broken(path, err)
		}
		p := fault.FieldPath(path, name)
		value := r.value(p, depth+1)
		if seen[name] {
			r.fail(p, "the field is repeated")
			continue
		}
		seen[name] = true
		n.members = append(n.members, &member{name: name, value: value})
	}
	r.close()
	return n
}

// close reads the bracket that ends a list or an object.
func (r *jsonReader) close() {
	if r.stop {
		return
	}
	if _, err := r.tokens.Token(); err != nil {
		r.broken("", err)
	}
}

// broken stops the walk if the two parsers of the text disagree, which should not happen.
func (r *jsonReader) broken(path string, err error) *node {
	r.stop = true
	r.fail(path, "the JSON cannot be read: %v", err)
	return &node{}
}
