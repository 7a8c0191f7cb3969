package dataset

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

// Dataset is a named join: one training table and its staging tables.
type Dataset struct {
	Name     string // from the config file; empty when given inline
	Training Training
	Key      []string  // columns of the join key of entries without their own key; nil or not empty
	Staging  []Staging // in join order
	Computed []Computed
	Fitted   []Fitted // by ascending names; only of datasets of the config file
}

// Computed is a computed column of a dataset: its value is an expression over other columns of the
// same row.
type Computed struct {
	Column string `json:"column"`
	Expr   string `json:"expr"` // in the language of docs/expressions.md
}

// Defaults returns the dataset with every unset field at its default, as decoding does.
// It does not modify the slices and pointers of d.
func (d Dataset) Defaults() Dataset {
	d.Training.Ref = d.Training.Ref.normal()
	if d.Training.Distinct != nil {
		distinct := *d.Training.Distinct
		distinct.Keep = cmp.Or(distinct.Keep, KeepFirst)
		d.Training.Distinct = &distinct
	}
	d.Staging = withDefaults(d.Staging, d.Key)
	return d
}

// withDefaults returns copies of entries with every unset field at its default, in a dataset
// with the given key.
func withDefaults(entries []Staging, key []string) []Staging {
	var out []Staging
	for _, s := range entries {
		out = append(out, s.defaults(key))
	}
	return out
}

// defaults returns the entry with every unset field at its default, in a dataset with the
// given key.
func (s Staging) defaults(key []string) Staging {
	s.Name = cmp.Or(s.Name, s.Table[strings.LastIndexByte(s.Table, '.')+1:])
	if len(s.Key) == 0 && len(key) > 0 {
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

// Training is the training table and the selection of its rows.
type Training struct {
	Table    string // [catalog.]namespace.table
	Ref      Ref
	Filter   Filter    // selects training rows
	Distinct *Distinct // nil keeps repeated rows
	// RequestLevel names the columns that are constant within a request, which is the
	// group of rows with equal values in the dataset's key. It has no duplicates. Nil
	// means none.
	RequestLevel []string
	Limits       *Limits // of the table's values; nil: none
}

// Ref selects the state of a table. At most one of its fields is set. The zero value
// selects the branch main.
type Ref struct {
	Name     string // branch or tag
	Snapshot int64  // snapshot id; 0: none
}

// MainBranch is the branch that the zero Ref selects.
const MainBranch = "main"

// normal replaces the name main by the zero value.
func (r Ref) normal() Ref {
	if r.Name == MainBranch {
		r.Name = ""
	}
	return r
}

// Staging is a staging table of a dataset and the rules of its join.
type Staging struct {
	Table       string
	Name        string // for reports and the indexed column; unique in the dataset, not "request"; default: the last part of Table
	Ref         Ref
	Filter      Filter    // selects staging rows, before duplicates are resolved
	Key         []KeyPair // never empty after decoding; no duplicate columns in either table
	Columns     []Column  // nil: all except the key; empty: none
	Prefix      string    // prepended to the names of columns that are not renamed
	Join        rule.Kind
	Nulls       rule.Nulls // for an overlay
	Missing     rule.Missing
	Defaults    []Default // used if Missing says so; in ascending order of columns
	Duplicates  rule.Duplicates
	OrderBy     []OrderBy    // order of the rows of one key; ties and nil: the order of files
	Align       *Align       // nil: any two partitions may match
	PointInTime *PointInTime // nil: no point-in-time condition
	MinMatch    float64      // minimum fraction of training rows that must match; 0: no minimum
	AnyMatch    bool         // MinMatch was given as 0: no warning if only few rows match
	MatchedAs   string       // name of a boolean column that is true in rows with a match; "": no such column
	Strategy    rule.Strategy
	Custom      string // name of a custom strategy; "" for other strategies
	// MaxAmplification is the maximum number of times that each staging byte may be read
	// on average. Planning fails if it would be exceeded.
	MaxAmplification float64
	Limits           *Limits // of the values of the table, whether or not rows pass the filter; nil: none
}

// KeyPair is one column of the join key, by its name in each table.
type KeyPair struct {
	Training string
	Staging  string
}

// Column selects a column, renamed if Name is set. If Expr is set, it computes a column instead.
type Column struct {
	Column string // if Expr is set, the name of the computed column
	Name   string // "": the value of Column
	First  int    // number of leading list elements to keep; 0: all
	Last   int    // number of trailing list elements to keep; 0: all; cannot be combined with First
	As     string // name of the Iceberg type to cast to, or Category; "": neither
	Expr   string // the expression of a computed column, only in a query; "": the dataset has the column
}

// Category is the As of a text column that batches contain as codes, with a dictionary in each
// batch (docs/spec/wire.md). Only columns of a query may use it, not the columns of a staging
// entry.
const Category = "category"

// Output returns the column's name in the stream.
func (c Column) Output() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Column
}

// listedDatasets is the maximum number of names that an error lists.
const listedDatasets = 10

// Unknown returns the NotFound error for an unknown dataset. It suggests the nearest of
// the known names, or else lists the names. For the name of a table, it shows how to read the table.
func Unknown(name string, known []string) *fault.Error {
	known = slices.Sorted(slices.Values(known))
	e := fault.New(fault.NotFound, "there is no dataset %q", name)
	e.Faults = []fault.Field{{Field: "dataset", Message: e.Message, Nearest: fault.Nearest(name, known)}}
	switch near := e.Faults[0].Nearest; {
	case near != "":
		return e.WithRemedy("did you mean %q?", near)
	case strings.Contains(name, "."):
		return e.WithRemedy(`to read a table, write a dataset in the query instead of a name: {"dataset": {"training": {"table": %q}}} (--query)`, name)
	case len(known) == 0:
		return e.WithRemedy("the server has no datasets: add them under datasets in its config file")
	case len(known) > listedDatasets:
		return e.WithRemedy("ListFlights lists the server's datasets, which include %s", strings.Join(known[:listedDatasets], ", "))
	}
	return e.WithRemedy("use one of: %s", strings.Join(known, ", "))
}
