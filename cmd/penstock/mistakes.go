package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// What is said of a command line that cannot be read: which flag or argument is wrong,
// the nearest right one, and what to write.

// wrongFlag says what is wrong with a flag that pflag could not take.
func wrongFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var unread *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return usage("unknown flag: --%s%s", unknown.GetSpecifiedName(), nearestFlag(c, unknown.GetSpecifiedName()))
	case errors.As(err, &bare):
		return usage("--%s needs a value: --%[1]s %s", bare.GetFlag().Name, bare.GetFlag().Value.Type())
	case errors.As(err, &unread):
		flag := unread.GetFlag()
		want := flag.Value.Type()
		switch want {
		case "int", "int64":
			want = "a whole number, such as 10"
		case "bool":
			want = "true or false, or nothing behind the flag"
		}
		if errors.Is(err, errFlagFollows) {
			return usage("--%s needs a value, and the flag %s follows it: --%[1]s %[3]s", flag.Name, unread.GetValue(), flag.Value.Type())
		}
		return usage("--%s %s: want %s", flag.Name, unread.GetValue(), want)
	}
	return usageError{err}
}

// nearestFlag proposes a flag of a command in place of one that there is not, as the end of
// a message.
func nearestFlag(c *cobra.Command, name string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	field := strings.ReplaceAll(name, "-", "_")
	near := fault.Nearest(name, known)
	for _, meant := range []string{dataset.MeantField(field), dataset.MeantSetting(field)} {
		if flag := strings.ReplaceAll(meant, "_", "-"); near == "" && slices.Contains(known, flag) {
			near = flag
		}
	}
	switch {
	case near != "":
		return fmt.Sprintf("\n  did you mean --%s?", near)
	case slices.Contains(known, "query") && slices.Contains(dataset.QueryFields(), field):
		return fmt.Sprintf("\n  it is a field of the query: give it with --query '{\"%s\": …}'", field)
	}
	return ""
}

// oneDash finds a long flag that is written with one dash, which would be read as letters.
func oneDash(root *cobra.Command, args []string) (*cobra.Command, error) {
	command, rest, err := root.Find(args)
	if err != nil {
		return root, nil //nolint:nilerr // cobra says it better
	}
	for _, arg := range rest {
		name, one := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if arg == "--" {
			break
		}
		if one && len(name) > 1 && command.Flags().Lookup(name) != nil {
			return command, usage("-%s: a flag of more than one letter has two dashes\n  did you mean --%[1]s?", name)
		}
	}
	return command, nil
}

// atMostOne takes the name of one dataset, or none.
func atMostOne(c *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return usage("%s takes one DATASET, and %q is one more%s", c.CommandPath(), args[1], asFile(args[1]))
}

// noArguments takes flags alone.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage("%s takes no arguments, and %q is one%s", c.CommandPath(), args[0], asFile(args[0]))
}

// asFile proposes --config where an argument is called like a config file.
func asFile(arg string) string {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg)) {
		return fmt.Sprintf("\n  a config file is given as --config %s", arg)
	}
	return ""
}
