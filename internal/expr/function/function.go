package function

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr/operator"
	"github.com/penstock/penstock/internal/fault"
)

// Argument is the type of an argument of a call, and its value if it is the same for all rows.
type Argument struct {
	Type arrow.DataType
	// Literal has one value, which may be a list. It is nil if the argument varies by row.
	Literal arrow.Array
	// Index is the index of a literal list; nil: a function that needs it makes it.
	Index *Index
}

// Bound is a function whose arguments have known types.
type Bound struct {
	// Type is the type of the result.
	Type arrow.DataType
	// Nullable reports whether the result may be null although no argument is.
	Nullable bool
	// Run computes the result for a number of rows. A literal has length 1, all other arguments have
	// one value for each row. An argument may be a slice of an array. Values under nulls are
	// arbitrary, and a row whose arguments are all null causes no error: the rows of CASE branches
	// that are not taken are passed as nulls. All memory is from mem. The caller releases the result.
	// An error is Invalid if the function has no result for the values of a row, and Exhausted if the
	// result is too large for an array.
	Run func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error)
	// Size returns an upper bound of the bytes that Run allocates for a number of rows. sizes has an
	// upper bound of the bytes of each argument: its values, offsets and validity bits.
	Size func(sizes []int64, rows int) int64
}

// Signature describes a function to users.
type Signature struct {
	// Name is the name by which expressions call the function.
	Name string
	// Arguments names the arguments. A final "…" stands for any number of further arguments.
	Arguments string
	// Accepts says which types the arguments may have.
	Accepts string
	// Result is the type of the result.
	Result string
	// Meaning says in one sentence what the function computes, and for which values it fails.
	Meaning string
	// DuckDB and Spark are the calls with the same meaning in these engines; "" if the call is the same.
	DuckDB, Spark string
}

// definition is a function: bind returns it for arguments of given types. If it does not accept the
// types, bind returns errTypes.
type definition struct {
	Signature
	least, most int // number of arguments; most < 0: any number
	bind        func(args []Argument) (Bound, error)
}

// errTypes is replaced with an error that says which types are accepted.
type errTypes struct{}

func (errTypes) Error() string { return "the types of the arguments are not accepted" }

// Names returns the signatures of all functions, in the order of the documentation.
func Names() []Signature {
	all := definitions()
	out := make([]Signature, len(all))
	for i, d := range all {
		out[i] = d.Signature
	}
	return out
}

// Table has all functions, by name.
type Table map[string]definition

// NewTable returns the table of all functions. An expression has many calls, so it makes the table once.
func NewTable() Table {
	out := Table{}
	for _, d := range definitions() {
		out[d.Name] = d
	}
	return out
}

// Bind returns the function of a name for arguments of given types. Names match in any case. An error is
// Invalid with one fault: it names the nearest function if there is none of the name, or the types that
// the function accepts.
func (t Table) Bind(name string, args []Argument) (Bound, error) {
	word := strings.ToLower(name)
	if d, ok := t[word]; ok {
		return d.bound(args)
	}
	var names []string
	for _, d := range definitions() {
		names = append(names, d.Name)
	}
	f := fault.Field{Message: "there is no function " + name, Nearest: fault.Nearest(word, names)}
	if hint := omitted(word); hint != "" {
		f.Message, f.Nearest = f.Message+": "+hint, ""
	}
	return Bound{}, fault.Fields([]fault.Field{f})
}

// invalid returns an Invalid error with one fault.
func invalid(format string, args ...any) error {
	return fault.Fields([]fault.Field{{Message: fmt.Sprintf(format, args...)}})
}

// bound binds the function, and completes its error.
func (d definition) bound(args []Argument) (Bound, error) {
	if len(args) < d.least || d.most >= 0 && len(args) > d.most {
		return Bound{}, d.refused(args)
	}
	b, err := d.bind(args)
	if err == nil {
		return b, nil
	}
	if _, types := err.(errTypes); types { //nolint:errorlint // bind returns it unwrapped
		return Bound{}, d.refused(args)
	}
	return Bound{}, err
}

// refused says which arguments the function takes.
func (d definition) refused(args []Argument) error {
	types, remedy := make([]string, len(args)), ""
	for i, a := range args {
		types[i] = operator.Name(a.Type)
		switch a.Type.ID() {
		case arrow.DECIMAL128:
			remedy = ": cast decimals to double first"
		case arrow.DATE32:
			if strings.HasSuffix(d.Accepts, acceptsTimestamp) {
				remedy = ": cast dates to timestamp first"
			}
		case arrow.DICTIONARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LARGE_LIST:
			remedy = ": functions do not support columns of this type"
		default:
		}
	}
	if d.Name == "round" && len(args) > 1 {
		remedy = ": write round(x * 100) / 100 for two digits"
	}
	return invalid("%s(%s) takes %s, not (%s)%s", d.Name, d.Arguments, d.Accepts, strings.Join(types, ", "), remedy)
}
