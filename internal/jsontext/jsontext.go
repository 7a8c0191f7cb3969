// Package jsontext writes values as JSON in one line, without escaping <, > and &: filters and types have these characters, and
// people read the texts.
package jsontext

import (
	"bytes"
	"encoding/json"
)

// Encode returns the JSON of a value, without a newline at its end.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Of returns the JSON of a value that always has one. For any other value it returns nil, which no reader accepts as JSON.
func Of(v any) []byte {
	out, err := Encode(v)
	if err != nil {
		return nil
	}
	return out
}
