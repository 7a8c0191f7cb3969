package dataset

import "strings"

// Dataset is a named join: one training table and its staging tables.
type Dataset struct {
	Name     string // from the config file; empty when given inline
	Training Training
	Key      []string  // columns of the join key; default of every staging entry; not empty if set
	Staging  []Staging // in the order of the joins; at most MaxStaging
}

// Defaults returns the dataset with every unset field at its default, as
// decoding leaves it. The slices of d are not changed.
func (d Dataset) Defaults() Dataset {
	d.Training.Ref = d.Training.Ref.normal()
	staging := d.Staging
	d.Staging = nil
	for _, s := range staging {
		if s.Name == "" {
			s.Name = s.Table[strings.LastIndexByte(s.Table, '.')+1:]
		}
		if len(s.Key) == 0 {
			s.Key = samePairs(d.Key)
		}
		if s.Join == "" {
			s.Join = Left
		}
		if s.Missing == "" {
			s.Missing = MissingNull
		}
		if s.Duplicates == "" {
			s.Duplicates = DuplicatesError
		}
		s.Ref = s.Ref.normal()
		d.Staging = append(d.Staging, s)
	}
	return d
}

// Training is the training table and which of its rows count.
type Training struct {
	Table  string // [catalog.]namespace.table
	Ref    Ref
	Filter string // "" keeps all rows
}

// Ref names the state of a table to read. At most one of its fields is set;
// the zero value is the branch main.
type Ref struct {
	Name     string // branch or tag
	Snapshot int64  // snapshot id, 0 is none
}

// normal names main in one way alone.
func (r Ref) normal() Ref {
	if r.Name == mainBranch {
		r.Name = ""
	}
	return r
}

// Staging is one staging table of a dataset and the rules of its join.
type Staging struct {
	Table      string
	Name       string // of the level, unique in the dataset, not "request"; default: the last part of Table
	Ref        Ref
	Filter     string    // staging rows that count, before duplicates are looked at
	Key        []KeyPair // never empty after decoding; no column twice on either side
	Columns    []Column  // nil: all but the keys; empty: none
	Prefix     string    // put before the names of columns that are not renamed
	Join       Join
	Missing    Missing
	Duplicates Duplicates
}

// KeyPair is one column of the join key on both sides.
type KeyPair struct {
	Training string
	Staging  string
}

// Column asks for one column, under another name if Name is set.
type Column struct {
	Column string
	Name   string // "": Column
}

// Output returns the column's name in the stream.
func (c Column) Output() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Column
}

// Join says which training rows a staging table keeps.
type Join string

// The kinds of join that this version serves.
const (
	Left  Join = "left"  // every training row; unmatched ones have null features
	Inner Join = "inner" // matched training rows only
)

// Missing says what a training row without a staging row gets.
type Missing string

// What a missing key means.
const (
	MissingNull  Missing = "null"
	MissingError Missing = "error"
)

// Duplicates says what several staging rows of one key mean. Order is
// (sequence number, file path, row position).
type Duplicates string

// What duplicate staging keys mean, for keys that a training row asks for.
const (
	DuplicatesError Duplicates = "error"
	DuplicatesFirst Duplicates = "first"
	DuplicatesLast  Duplicates = "last"
)
