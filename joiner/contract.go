package joiner

import (
	"context"
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner/rule"
)

// BuildSpec describes how a build side is made from its rows, and how it is
// searched. Positions refer to the schema of its stream.
type BuildSpec struct {
	// Name is the name of the dictionary column, and of the rows in errors.
	Name string
	// Defaults holds, by position in Input.Columns, an array of one value of
	// that column's type: what a training row without a match gets. Nil, or a
	// missing entry, is null. Build borrows the arrays.
	Defaults []arrow.Array
	// Matched names a boolean field that follows the columns: whether the
	// training row matched. It is never null. "" adds none.
	Matched string
	// OrderBy orders the staging rows of one key; ties are in order of arrival.
	OrderBy []Order
	// Arrival describes the order in which the rows were written, as far as it is known. Nil means
	// that they were written in the order of the stream.
	Arrival Arrival
	// Time is the position of the time column, for a Rule with a TimeRule; nil
	// is none. A staging row without a time matches nothing.
	Time *int
	// Strategy is how keys are searched. It changes neither rows nor order.
	Strategy rule.Strategy
	// Custom, if not nil, replaces Strategy.
	Custom Custom
}

// HasDefaults reports whether a column has a default.
func (b BuildSpec) HasDefaults() bool {
	return slices.ContainsFunc(b.Defaults, func(a arrow.Array) bool { return a != nil })
}

// Arrival describes the order in which the files of a stream were written, as far as it is known.
// Rows that do not fit in memory are compared portion by portion, which relies on these properties:
//
//   - Files of one commit have a known order, and the order of each of them and another file is
//     known for all or for none.
//   - Let A, B and C be files in the order of the stream. If the orders of A and B, and of B and C
//     are known, so is that of A and C. If that of B and C is unknown, so is that of A and C,
//     unless these two are of one commit.
type Arrival interface {
	// Known reports whether it is known which of two files was written first.
	Known(one, other string) bool
	// Unknown returns the error for a key whose row cannot be chosen: only the order of
	// arrival could decide, and that of these two files is not known.
	Unknown(key, one, other string) error
}

// Order is one column by which the staging rows of a key are ordered. Nulls are
// last in either direction, and NaN is above every number.
type Order struct {
	Column     int // position in the staging stream
	Descending bool
}

// TimeRule chooses, of the staging rows of a key, the latest one that is not after
// the training row's time nor older than the tolerance. Several rows of that
// key and time are duplicates. A training row without a time matches nothing.
type TimeRule struct {
	Column    int   // position of the time column in the training stream
	Tolerance int64 // how much older the staging row may be, in the column's unit; not negative
	Exact     bool  // whether a staging row of exactly the training row's time matches
	UTC       bool  // whether timestamps without a zone are in UTC, so that they can be compared with those that have one
}

// OverlayColumn replaces a training column of the result.
type OverlayColumn struct {
	Training int // position in Input.Columns of the training stream
	Field    int // position in Probe.Columns, of the same type
}

// Rule defines how one build side is joined.
type Rule struct {
	Name       string // of the dictionary column, and in errors
	Kind       rule.Kind
	Missing    rule.Missing    // if it fails, a training row without a match is an error
	Duplicates rule.Duplicates // ordered by BuildSpec.OrderBy, then by arrival
	Nulls      rule.Nulls      // of an overlay
	Time       *TimeRule       // nil: no time column
	Overlays   []OverlayColumn // only of an overlay
	// Unasked means that no value of the build side is used: it does not matter which of several
	// staging rows of a key is chosen, and they are no error.
	Unasked bool
}

// Multiplies reports whether the result may have a training row more than once.
func (r Rule) Multiplies() bool { return r.Duplicates.Multiply() && r.Kind.Adds() }

// chooses reports whether one of several staging rows is chosen.
func (r Rule) chooses() bool {
	return r.Duplicates.Choose() && r.Kind.Adds()
}

// RefusesDuplicates reports whether several staging rows of one key are an error.
func (r Rule) RefusesDuplicates() bool {
	return r.Duplicates.Fail() && r.Kind.Adds() && !r.Unasked
}

// check returns Internal if the rule has an unknown word.
func (r Rule) check() error {
	return errors.Join(rule.Check(r.Kind, rule.Kinds()), rule.Check(r.Missing, rule.AllMissing()),
		rule.Check(r.Duplicates, rule.AllDuplicates()), rule.Check(r.Nulls, rule.AllNulls()))
}

// Counts counts the training rows that probed one staging table.
// Rows = Matched + Missing; NullKeys are among Missing.
type Counts struct {
	Rows       int64 `json:"rows"`
	Matched    int64 `json:"matched"`
	Missing    int64 `json:"missing"`
	NullKeys   int64 `json:"null_keys"`
	Duplicates int64 `json:"duplicates"`          // training rows with several matches
	Resolved   int64 `json:"duplicates_resolved"` // of Duplicates, those for which first or last chose one
	Defaulted  int64 `json:"defaults_filled"`     // of Missing, those that got defaults
}

// Options are the resources of the joiner.
type Options struct {
	Memory memory.Allocator // of staging rows, references and filtered batches; nil: the Go heap
	Budget *budget.Budget   // reserves a build side's rows and index; nil: unlimited
	Spare  int64            // bytes of the budget that a build side must leave free
}

func (o Options) memory() memory.Allocator {
	if o.Memory == nil {
		return batch.Default()
	}
	return o.Memory
}

// Probe is one build side as used by the join of a range.
type Probe struct {
	// Rule defines the join; its name is the dictionary column's.
	Rule Rule
	// Key holds the positions of the key columns in the training stream, in the
	// order of the build side's.
	Key []int
	// BuildSide returns the build side with a reference, which the joiner
	// releases. It is called once, after the first training batch was read; ctx
	// ends with the joined stream.
	BuildSide func(ctx context.Context) (Probeable, error)
	// Columns are the build side's columns: the fields of the dictionary's struct.
	Columns []arrow.Field
	// Matched is the build side's BuildSpec.Matched.
	Matched string
}

// fieldOf returns the dictionary column of a build side with these columns, before
// anything is read: dictionary<int32, struct<columns>>, not nullable. The
// struct's fields are nullable and have no metadata. If matched is not "", a
// boolean field of that name follows, which is not nullable.
func fieldOf(name string, columns []arrow.Field, matched string) arrow.Field {
	fields := make([]arrow.Field, len(columns), len(columns)+1)
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type, Nullable: true}
	}
	if matched != "" {
		fields = append(fields, arrow.Field{Name: matched, Type: arrow.FixedWidthTypes.Boolean})
	}
	return arrow.Field{Name: name, Type: &arrow.DictionaryType{
		IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(fields...),
	}}
}
