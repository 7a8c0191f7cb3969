// Package cmdline parses command lines and queries made of flags, and describes mistakes in them.
//
// A mistake in the use of a command is an Error. It names the flag or argument, the nearest valid
// one, and the remedy. The values of a query are checked by the server, as for all clients.
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

// errFlagFollows means that the value of a flag begins with --, so it is probably the next flag.
var errFlagFollows = errors.New("a flag follows")

// repeatedText is the value of a flag that may be given several times.
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

// text is the value of a flag. Help shows its shape, as in "--listen HOST:PORT".
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
