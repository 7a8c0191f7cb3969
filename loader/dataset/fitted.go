package dataset

import (
	"slices"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fitted"
)

// Fitted is a fitted list of a file, which the expressions of computed columns name. If Column or Kind
// is "", the file has only one list that the other one fits.
type Fitted struct {
	Name   string
	File   string // relative to the folder of the config file
	Digest string // of the file, as sha256:…
	Column string // of the list in the file
	Kind   fitted.Kind
	List   *expr.List // the values; nil: the file was not read
}

// Lists returns the fitted lists of the dataset whose files were read.
func (d Dataset) Lists() expr.Lists {
	out := expr.Lists{}
	for _, f := range d.Fitted {
		if f.List != nil {
			out[f.Name] = f.List
		}
	}
	return out
}

// fittedForm is the JSON form of fitted lists: an object from names to files.
type fittedForm []Fitted

// MarshalJSON keeps the order.
func (f fittedForm) MarshalJSON() ([]byte, error) {
	o := newObject()
	for _, one := range f {
		o.put(one.Name, struct {
			File   string      `json:"file,omitempty"`
			Digest string      `json:"digest"`
			Column string      `json:"column,omitempty"`
			Kind   fitted.Kind `json:"kind,omitempty"`
		}{one.File, one.Digest, one.Column, one.Kind})
	}
	return o.bytes(), nil
}

// valuesOf returns fitted lists with the digests of their values instead of their files.
func valuesOf(lists []Fitted) []Fitted {
	out := slices.Clone(lists)
	for i, f := range out {
		if f.List != nil {
			out[i] = Fitted{Name: f.Name, Digest: f.List.Digest()}
		}
	}
	return out
}
