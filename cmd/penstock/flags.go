package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// errFlagFollows says that a flag was taken for the value of the one before it.
var errFlagFollows = errors.New("a flag follows")

// text is a flag's value that help shows by its shape, as "--listen HOST:PORT".
type text struct {
	value *string
	shape string
}

// String implements pflag.Value.
func (t text) String() string { return *t.value }

// Set implements pflag.Value.
func (t text) Set(given string) error {
	if strings.HasPrefix(given, "--") {
		return errFlagFollows // nothing that a flag of ours takes begins so
	}
	*t.value = given
	return nil
}

// Type implements pflag.Value.
func (t text) Type() string { return t.shape }

// textFlag adds a flag of one value. The name may end with a comma and a
// letter.
func textFlag(c *cobra.Command, name, shape, usage string) *string {
	name, letter, _ := strings.Cut(name, ",")
	t := text{value: new(string), shape: shape}
	c.Flags().VarP(t, name, letter, usage)
	return t.value
}
