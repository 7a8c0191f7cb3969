package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// text is a flag's value that help shows by its shape, as "--listen HOST:PORT".
type text struct {
	value *string
	shape string
}

// String implements pflag.Value.
func (t text) String() string { return *t.value }

// Set implements pflag.Value.
func (t text) Set(given string) error {
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
