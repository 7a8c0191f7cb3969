// Package fitted fits lists of values to the rows of a column: quantiles, which are bounds of buckets,
// and vocabularies, which are the most frequent values. A File keeps such lists, so that training and
// inference use the same ones.
//
// Lists are exact: all values, or the counts of all distinct values, have to fit in memory. They
// depend only on the values, and not on the order in which the values are added.
package fitted

import (
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// Version is the version of the form of files.
const Version = 1

// File is the content of a file with lists.
type File struct {
	Version int    `json:"version"`
	From    string `json:"from"`             // the table or dataset
	Filter  string `json:"filter,omitempty"` // of the rows
	// Snapshots are the snapshots of the tables, in the form of a query's field of this name.
	Snapshots json.RawMessage `json:"snapshots"`
	Rows      int64           `json:"rows"`
	Lists     []List          `json:"lists"`
}

// List is a list of values.
type List struct {
	Column string `json:"column"`
	Kind   Kind   `json:"kind"`
	Asked  int    `json:"asked"` // the number of buckets, or the maximum number of values
	Type   string `json:"type"`  // the Arrow type of the column
	// Nulls and NaNs are the numbers of values that were left out.
	Nulls int64 `json:"nulls"`
	NaNs  int64 `json:"nans,omitempty"`
	// Distinct and MinCount are those of a vocabulary: the number of distinct values of the column, and
	// the smallest count of a value in the list.
	Distinct int64 `json:"distinct,omitempty"`
	MinCount int64 `json:"min_count,omitempty"`
	// Values are numbers or texts. Quantiles are in ascending order and distinct; the values of a
	// vocabulary are in the order of their counts, the largest first, and equal counts in the order of the values.
	Values []json.RawMessage `json:"values"`
	Counts []int64           `json:"counts,omitempty"` // of the values of a vocabulary
}

// Kind is the kind of a list.
type Kind string

// The kinds.
const (
	Quantiles  Kind = "quantiles"
	Vocabulary Kind = "vocabulary"
)

// String returns the word for the kind in files.
func (k Kind) String() string { return string(k) }

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Quantiles, Vocabulary} }

// Ask says which list to fit.
type Ask struct {
	Column string
	Kind   Kind
	Size   int // at least 2 for quantiles, and 1 for a vocabulary
	// MinCount is the smallest count of a value in a vocabulary.
	MinCount int64
}

// unsupported returns the error for a column whose type a kind of list does not support.
func unsupported(ask Ask, of arrow.DataType) error {
	want := "whole numbers and floats"
	if ask.Kind == Vocabulary {
		want = "texts and whole numbers"
	}
	return fault.InvalidField(string(ask.Kind), "column %s has type %s, and %s takes columns of %s", ask.Column, of, ask.Kind, want)
}
