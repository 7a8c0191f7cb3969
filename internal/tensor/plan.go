package tensor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/penstock/penstock/internal/fault"
)

// Plan says how each column of a schema becomes tensors. It needs no interpretation: defaults and
// rules of users are already applied.
type Plan struct {
	// Columns has every column of the schema in order, with the fields of an indexed column in
	// place of the column.
	Columns []Column `json:"columns"`
	// Packs are matrices that contain several columns, which then have no tensors of their own.
	Packs []Pack `json:"packs"`
	// Vocabularies are the vocabularies to which columns refer by index.
	Vocabularies []*Vocabulary `json:"-"`
}

// Column is the conversion of one column.
type Column struct {
	// Entry is the indexed column that contains the column; "" for a plain column.
	Entry string `json:"entry"`
	Name  string `json:"name"`
	Form  Form   `json:"form"`
	// Source is the type of the values; for lists, of their elements; for dictionaries, of the
	// dictionary's values; for extension types, of the storage.
	Source Source `json:"source"`
	// Dictionary says whether the values are in a dictionary.
	Dictionary bool       `json:"dictionary"`
	Conversion Conversion `json:"conversion"`
	// Buckets is the number of buckets of the conversion Hash; otherwise 0.
	Buckets int `json:"buckets"`
	// Vocabulary is the index of the vocabulary of the conversion Lookup, and Unknown the code of values that it
	// lacks. If Unknown is nil, such values are invalid.
	Vocabulary int    `json:"vocabulary"`
	Unknown    *int64 `json:"unknown"`
	// DType is the type of the tensor's elements. If the conversion results in another type, the
	// numbers are cast.
	DType DType `json:"dtype"`
	// Nulls says what a null row becomes. Fill has the bytes of one element of DType.
	Nulls Nulls  `json:"nulls"`
	Fill  []byte `json:"fill"`
	// Width is the number of elements of a fixed-size list; 0 for other forms.
	Width int `json:"width"`
	// ElementNulls and ElementFill say what a null element of a list becomes.
	ElementNulls Nulls  `json:"element_nulls"`
	ElementFill  []byte `json:"element_fill"`
	// Mask says whether a second tensor has a boolean for each row: true where there is a value.
	Mask bool `json:"mask"`
}

// Pack is a matrix with the columns of one entry, side by side.
type Pack struct {
	Name    string   `json:"name"` // of the matrix, for errors
	Entry   string   `json:"entry"`
	Columns []string `json:"columns"`
}

// Form is the shape of a column.
type Form uint8

// The forms of columns.
const (
	Values     Form = iota + 1 // one value per row: a tensor [rows]
	FixedLists                 // lists of one length: a tensor [rows, width]
	Lists                      // lists: offsets [rows+1] of 32 bits, and values
	LargeLists                 // lists: offsets [rows+1] of 64 bits, and values
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Form) UnmarshalText(text []byte) error {
	return word(f, text, "a form", "values", "fixed_lists", "lists", "large_lists")
}

// jagged reports whether lists may differ in length.
func (f Form) jagged() bool { return f == Lists || f == LargeLists }

// Conversion makes numbers of values.
type Conversion uint8

// The conversions. Each results in one type; see Conversion.result.
const (
	Same      Conversion = iota + 1 // numbers and booleans as they are
	Ticks                           // dates and times: int64 in their unit
	Unscaled                        // decimals of at most 18 digits: int64 in units of the last digit
	Nearest64                       // decimals: the nearest float64, ties to even
	Nearest32                       // decimals: the nearest float32, ties to even
	Hash                            // texts and integers: the bucket of Iceberg's transform, int64
	Lookup                          // texts and integers: the code in a vocabulary, int64
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Conversion) UnmarshalText(text []byte) error {
	return word(c, text, "a conversion", "same", "ticks", "unscaled", "nearest64", "nearest32", "hash", "lookup")
}

// Nulls says what a null becomes.
type Nulls uint8

// The rules for nulls.
const (
	Corrupt Nulls = iota + 1 // the schema excludes nulls: a null is an error of kind Corrupt
	Refused                  // a null is an error of kind Invalid
	Filled                   // a null becomes the fill
	Empty                    // a null list becomes an empty list
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Nulls) UnmarshalText(text []byte) error {
	return word(n, text, "a rule for nulls", "corrupt", "error", "fill", "empty")
}

// word sets an enumerated value to the position of a word, counted from 1.
func word[E ~uint8](value *E, text []byte, what string, words ...string) error {
	for i, known := range words {
		if known == string(text) {
			*value = E(i + 1)
			return nil
		}
	}
	return unknown(what, text)
}

// ReadPlan reads a plan from JSON. Unknown fields and words are invalid.
func ReadPlan(text []byte, vocabularies []*Vocabulary) (Plan, error) {
	plan := Plan{Vocabularies: vocabularies}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	err := in.Decode(&plan)
	if err == nil {
		if _, rest := in.Token(); !errors.Is(rest, io.EOF) {
			err = errors.New("there is text after the plan")
		}
	}
	if err != nil {
		return Plan{}, fault.New(fault.Invalid, "read a tensor plan: %w", err).
			WithRemedy("use the client package of the server's version")
	}
	return plan, nil
}
