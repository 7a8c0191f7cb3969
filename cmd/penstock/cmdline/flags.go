// Package cmdline parses command lines, makes queries from flags, and describes mistakes in the use
// of commands.
//
// A mistake in the use of a command is an Error. Its text names the wrong flag or argument, the
// most similar valid one, and the remedy. The values of a query are not checked here: the server
// checks them, as it does for all clients.
package cmdline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Error is a mistake in the use of a command.
type Error struct{ Err error }

func (e Error) Error() string { return e.Err.Error() }
func (e Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a formatted message.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

// errFlagFollows is the error for a flag whose value begins with --. The value was probably
// forgotten, and what follows is the next flag.
var errFlagFollows = errors.New("a flag follows")

// repeatedText is the value of a flag that may be repeated. It collects the text of each
// repetition.
type repeatedText struct {
	values *[]string
	shape  string
}

// String implements pflag.Value.
func (t repeatedText) String() string { return strings.Join(*t.values, " ") }

// Set implements pflag.Value.
func (t repeatedText) Set(given string) error {
	if strings.HasPrefix(given, "--") {
		return errFlagFollows
	}
	*t.values = append(*t.values, given)
	return nil
}

// Type implements pflag.Value.
func (t repeatedText) Type() string { return t.shape }

// text is the value of a flag that has a text. The help of a command shows the shape of the value,
// as in "--listen HOST:PORT".
type text struct {
	value *string
	shape string
}

// String implements pflag.Value.
func (t text) String() string { return *t.value }

// Set implements pflag.Value.
func (t text) Set(given string) error {
	if strings.HasPrefix(given, "--") {
		return errFlagFollows // no valid value of these flags begins with --
	}
	*t.value = given
	return nil
}

// Type implements pflag.Value.
func (t text) Type() string { return t.shape }

// Text adds a flag with a text value. The name may end with a comma and a shorthand letter.
func Text(c *cobra.Command, name, shape, usage string) *string {
	value := new(string)
	name, letter, _ := strings.Cut(name, ",")
	c.Flags().VarP(text{value: value, shape: shape}, name, letter, usage)
	return value
}

// Texts adds a flag with a text value that may be given several times.
func Texts(c *cobra.Command, name, shape, usage string) *[]string {
	values := new([]string)
	c.Flags().Var(repeatedText{values: values, shape: shape}, name, usage)
	return values
}

// Shape returns the shape of a flag that this package added, such as COLUMNS. It returns "" for other
// flags.
func Shape(f *pflag.Flag) string {
	if v, ok := f.Value.(interface{ shaped() string }); ok {
		return v.shaped()
	}
	return ""
}

func (t text) shaped() string           { return t.shape }
func (t repeatedText) shaped() string   { return t.shape }
func (v *fieldValue[S]) shaped() string { return v.field.Flag.Shape }

// insideOf is the annotation of SetInside.
const insideOf = "penstock_inside"

// SetInside marks flags whose values are names inside of a table, such as columns and branches, as
// names inside of the table that another flag names. Other flags of a command refer to the table or
// dataset that is its first argument.
func SetInside(c *cobra.Command, other string, flags ...string) {
	for _, name := range flags {
		f := c.Flags().Lookup(name)
		f.Annotations = map[string][]string{insideOf: {other}}
	}
}

// InsideOf returns the name of the other flag of SetInside, or "" if the flag is not marked.
func InsideOf(f *pflag.Flag) string { return strings.Join(f.Annotations[insideOf], "") }
