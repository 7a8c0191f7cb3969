package dataset

import (
	"cmp"
	"strings"

	"github.com/penstock/penstock/joiner/rule"
)

// Dataset is a named join: one training table and its staging tables.
type Dataset struct {
	Name     string // from the config file; empty when given inline
	Training Training
	Key      []string  // columns of the join key; default of every staging entry; not empty if set
	Staging  []Staging // in the order of the joins; at most maxStaging
}

// Defaults returns the dataset with every unset field at its default, as
// decoding leaves it. What the slices and pointers of d refer to is not
// changed.
func (d Dataset) Defaults() Dataset {
	d.Training.Ref = d.Training.Ref.normal()
	if d.Training.Distinct != nil {
		distinct := *d.Training.Distinct
		distinct.Keep = cmp.Or(distinct.Keep, KeepFirst)
		d.Training.Distinct = &distinct
	}
	staging := d.Staging
	d.Staging = nil
	for _, s := range staging {
		d.Staging = append(d.Staging, s.defaults(d.Key))
	}
	return d
}

// defaults returns an entry of a dataset with that key, every unset field at
// its default.
func (s Staging) defaults(key []string) Staging {
	s.Name = cmp.Or(s.Name, s.Table[strings.LastIndexByte(s.Table, '.')+1:])
	if len(s.Key) == 0 {
		s.Key = samePairs(key)
	}
	s.Ref = s.Ref.normal()
	s.MaxAmplification = cmp.Or(s.MaxAmplification, DefaultMaxAmplification)
	if s.Align != nil {
		align := s.Align.defaults()
		s.Align = &align
	}
	if s.PointInTime != nil {
		point := *s.PointInTime
		point.Staging = cmp.Or(point.Staging, point.Training)
		s.PointInTime = &point
	}
	return s
}

// Training is the training table and which of its rows count.
type Training struct {
	Table    string // [catalog.]namespace.table
	Ref      Ref
	Filter   Filter    // training rows that count
	Distinct *Distinct // nil keeps repeated rows
	// RequestLevel names columns that are constant within a request: the rows that
	// agree in the dataset's key. Nil: none; no name twice.
	RequestLevel []string
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
	Table       string
	Name        string // in reports and of its indexed column, unique in the dataset, not "request"; default: the last part of Table
	Ref         Ref
	Filter      Filter    // staging rows that count, before duplicates are looked at
	Key         []KeyPair // never empty after decoding; no column twice in either table
	Columns     []Column  // nil: all but the keys; empty: none
	Prefix      string    // put before the names of columns that are not renamed
	Join        rule.Kind
	Nulls       rule.Nulls // of an overlay
	Missing     rule.Missing
	Defaults    []Default // where Missing has defaults, by column, ascending
	Duplicates  rule.Duplicates
	OrderBy     []OrderBy    // what first, last and all go by, before the order of files; nil: that alone
	Align       *Align       // nil: every partition may match every other
	PointInTime *PointInTime // nil: rows have no time
	MinMatch    float64      // share of training rows that must match; 0: any
	MatchedAs   string       // name of a boolean column that says which rows matched; "": none
	Strategy    rule.Strategy
	Custom      string // the name of a custom strategy; "" of others
	// MaxAmplification is how often each staging byte may be read at most, on
	// average, before planning fails.
	MaxAmplification float64
}

// KeyPair is one column of the join key in both tables.
type KeyPair struct {
	Training string
	Staging  string
}

// Column asks for one column, under another name if Name is set.
type Column struct {
	Column string
	Name   string // "": Column
	First  int    // of a list: its first so many elements; 0: all
	Last   int    // of a list: its last so many elements; 0: all. Not with First
	As     string // name of the Iceberg type to cast to; "": as it is
}

// Output returns the column's name in the stream.
func (c Column) Output() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Column
}
