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
