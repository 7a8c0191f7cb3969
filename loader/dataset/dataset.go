package dataset

import (
	"cmp"
	"strings"
)

// Dataset is a named join: one training table and its staging tables.
type Dataset struct {
	Name     string // from the config file; empty when given inline
	Training Training
	Key      []string  // columns of the join key; default of every staging entry; not empty if set
	Staging  []Staging // in the order of the joins; at most MaxStaging
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
	s.Join = cmp.Or(s.Join, Left)
	s.Missing = cmp.Or(s.Missing, MissingNull)
	s.Duplicates = cmp.Or(s.Duplicates, DuplicatesError)
	s.Strategy = cmp.Or(s.Strategy, StrategyAuto)
	s.MaxAmplification = cmp.Or(s.MaxAmplification, DefaultMaxAmplification)
	if s.Join == Overlay {
		s.Nulls = cmp.Or(s.Nulls, NullsReplace)
	}
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
	Filter   string    // "" keeps all rows
	Distinct *Distinct // nil keeps repeated rows
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
	Name        string // of the level, unique in the dataset, not "request"; default: the last part of Table
	Ref         Ref
	Filter      string    // staging rows that count, before duplicates are looked at
	Key         []KeyPair // never empty after decoding; no column twice on either side
	Columns     []Column  // nil: all but the keys; empty: none
	Prefix      string    // put before the names of columns that are not renamed
	Join        Join
	Nulls       Nulls // of Overlay alone; "" otherwise
	Missing     Missing
	Defaults    []Default // of MissingDefault alone, by column, ascending
	Duplicates  Duplicates
	OrderBy     []OrderBy    // what DuplicatesFirst, Last and All go by, before the order of files; nil: that alone
	Align       *Align       // nil: every partition may match every other
	PointInTime *PointInTime // nil: rows have no time
	MinMatch    float64      // share of training rows that must match; 0: any
	MatchedAs   string       // name of a boolean column that says which rows matched; "": none
	Strategy    Strategy
	// MaxAmplification is how often each staging byte may be read at most, on
	// average, before planning fails.
	MaxAmplification float64
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

// Join says which training rows a staging table keeps.
type Join string

// The kinds of join.
const (
	Left    Join = "left"    // every training row; unmatched ones have null features
	Inner   Join = "inner"   // matched training rows only
	Semi    Join = "semi"    // matched training rows, without columns of the staging table
	Anti    Join = "anti"    // unmatched training rows, without columns of the staging table
	Overlay Join = "overlay" // every training row; columns of the staging table replace training columns of their names where it matched
)

// Missing says what a training row without a staging row gets.
type Missing string

// What a missing key means.
const (
	MissingNull    Missing = "null"
	MissingError   Missing = "error"
	MissingDefault Missing = "default" // Staging.Defaults; columns without one are null
)

// Duplicates says what several staging rows of one key mean. Order is
// (sequence number, file path, row position).
type Duplicates string

// What duplicate staging keys mean, for keys that a training row asks for.
const (
	DuplicatesError Duplicates = "error"
	DuplicatesFirst Duplicates = "first"
	DuplicatesLast  Duplicates = "last"
	DuplicatesAll   Duplicates = "all" // one row per staging row, as SQL has it
)
