package joiner

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner/rule"
)

// BuildSpec says what a build side is made of beside its rows, and how it is
// searched. Positions are those of its stream's schema.
type BuildSpec struct {
	// Name is that of the dictionary column, and of the rows in errors.
	Name string
	// Defaults holds, by position in Input.Columns, an array of one value of
	// that column's type, which a training row without a match gets; nil, or no
	// entry, is null. Build borrows them.
	Defaults []arrow.Array
	// Matched names a boolean field behind the columns, never null: whether the
	// training row matched. "" adds none.
	Matched string
	// OrderBy orders the staging rows of one key, before arrival does.
	OrderBy []Order
	// Arrival is what is known of the order in which the rows were written; nil is all of
	// it: they were written in the order in which the stream has them.
	Arrival Arrival
	// Time is the position of the time column, for a Rule with a TimeRule; nil
	// is none. A staging row without a time matches nothing.
	Time *int
	// Strategy says how keys are searched. It changes neither rows nor order.
	Strategy rule.Strategy
	// Custom replaces Strategy; nil is none.
	Custom Custom
}

// Arrival says what is known of the order in which the files of a stream were written.
type Arrival interface {
	// Known says whether it is known which of two files was written first.
	Known(one, other string) bool
	// Unknown is the error of a key whose row cannot be chosen, since nothing else orders
	// rows of two files of which that is not known.
	Unknown(key, one, other string) error
}

// Order is one column by which staging rows of one key are ordered. Nulls are
// last either way, and NaN is above every number.
type Order struct {
	Column     int // position in the staging stream
	Descending bool
}

// TimeRule takes of the staging rows of a key the latest one that is not after
// the training row's time, nor older than the tolerance. Several rows of that
// key and that time are duplicates. A training row without a time matches
// nothing.
type TimeRule struct {
	Column    int   // position of the time column in the training stream
	Tolerance int64 // how much older the staging row may be, in the column's unit; not negative
	Exact     bool  // whether a staging row of the very same time counts
}

// OverlayColumn replaces a training column of the result.
type OverlayColumn struct {
	Training int // position in Input.Columns of the training stream
	Field    int // position in Probe.Columns, of the same type
}

// Rule says how one build side is joined.
type Rule struct {
	Name       string // of the dictionary column, and in errors
	Kind       rule.Kind
	Missing    rule.Missing    // of one that fails, a training row without a match is an error
	Duplicates rule.Duplicates // ordered by BuildSpec.OrderBy, then as the stream gave them
	Nulls      rule.Nulls      // of an overlay
	Time       *TimeRule       // nil: rows have no time
	Overlays   []OverlayColumn // of an overlay alone
}

// Multiplies says whether a training row may stand in the result more than once.
func (r Rule) Multiplies() bool { return r.Duplicates.Multiply() && r.Kind.Adds() }

// chooses says whether one of several staging rows is taken.
func (r Rule) chooses() bool {
	return r.Duplicates.Choose() && r.Kind.Adds()
}

// RefusesDuplicates says whether several staging rows of one key are an error.
func (r Rule) RefusesDuplicates() bool { return r.Duplicates.Fail() && r.Kind.Adds() }

// check is Internal for a rule in words that do not exist.
func (r Rule) check() error {
	return errors.Join(rule.Check(r.Kind, rule.Kinds()), rule.Check(r.Missing, rule.AllMissing()),
		rule.Check(r.Duplicates, rule.AllDuplicates()), rule.Check(r.Nulls, rule.AllNulls()))
}

// Counts says what became of the training rows that probed one staging table.
// Rows = Matched + Missing; NullKeys are among Missing.
type Counts struct {
	Rows       int64 `json:"rows"`
	Matched    int64 `json:"matched"`
	Missing    int64 `json:"missing"`
	NullKeys   int64 `json:"null_keys"`
	Duplicates int64 `json:"duplicates"`          // training rows that several staging rows match
	Resolved   int64 `json:"duplicates_resolved"` // of Duplicates, those for which first or last chose one
	Defaulted  int64 `json:"defaults_filled"`     // of Missing, those that got defaults
}

// Options says what the joiner works with.
type Options struct {
	Memory memory.Allocator // of staging rows, references and filtered batches; nil: the Go heap
	Budget *budget.Budget   // what a build side's rows and index are reserved from; nil: unlimited
	Spare  int64            // bytes of the budget that a build side leaves free
}

func (o Options) memory() memory.Allocator {
	if o.Memory == nil {
		return memory.DefaultAllocator
	}
	return o.Memory
}

// Probe is one build side as a range's join uses it.
type Probe struct {
	// Rule judges the matches; its name is the dictionary column's.
	Rule Rule
	// Key holds the positions of the key columns in the training stream,
	// pairwise with the build side's.
	Key []int
	// BuildSide gives the build side with a reference, which the joiner
	// releases. It is asked once, when the first training row has come; ctx
	// ends with the joined stream.
	BuildSide func(ctx context.Context) (Probeable, error)
	// Columns holds the build side's columns: the fields of the dictionary's
	// struct.
	Columns []arrow.Field
	// Matched is the build side's BuildSpec.Matched.
	Matched string
}

// fieldOf returns the dictionary column of a build side that gives these columns,
// before anything is read: dictionary<int32, struct<columns>>, not nullable.
// The struct's fields are nullable and have no metadata, whatever the columns.
// If matched is not "", a boolean field of that name follows them, which is
// not nullable.
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
