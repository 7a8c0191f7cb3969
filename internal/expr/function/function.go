// Package function has the functions of value expressions, which are called by name. Operators,
// CASE and CAST belong to package expr.
package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Argument describes an argument of a call.
type Argument struct {
	Type    arrow.DataType
	Literal arrow.Array // one value, if the argument is a literal or a list of literals; nil: it varies by row
}

// Bound is a function for arguments of certain types. It is immutable and safe for concurrent use.
type Bound struct {
	Type     arrow.DataType
	Nullable bool // whether the result may be null although no argument is

	// Run computes the result for a number of rows. A literal has length 1, all other arguments have
	// one value for each row. An argument may be a slice of an array. Values under nulls are
	// arbitrary, and a row whose arguments are all null causes no error: the rows of CASE branches
	// that are not taken are passed as nulls. All memory is from mem. The caller releases the result.
	// An error is Invalid, and has the value and a remedy.
	Run func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error)

	// Size returns an upper bound of the bytes that Run allocates for a number of rows. sizes has an
	// upper bound of the bytes of each argument: its values, offsets and validity bits.
	Size func(sizes []int64, rows int) int64
}

// Signature describes a function for users.
type Signature struct {
	Name      string
	Arguments string // as in "x, n"
	Result    string // its type
	Meaning   string // one sentence
}

// Bind returns the function of a name for arguments. An error is Invalid with one fault: the name
// is unknown, or the types are not accepted.
func Bind(name string, _ []Argument) (Bound, error) {
	return Bound{}, fault.Fields([]fault.Field{{Message: "unknown function " + name}})
}

// Names returns the functions in the order of their names.
func Names() []Signature { return nil }
