package cmdline

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// FlagError converts an error of pflag to an Error.
func FlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return Errorf("unknown flag: --%s%s", unknown.GetSpecifiedName(), nearestFlag(c, unknown.GetSpecifiedName()))
	case errors.As(err, &bare):
		return Errorf("--%s needs a value: --%[1]s %s", bare.GetFlag().Name, bare.GetFlag().Value.Type())
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		want := flag.Value.Type()
		switch want {
		case "int", "int64":
			want = "a whole number, such as 10"
		case "bool":
			want = "true or false, or the flag alone"
		}
		if wanted, ok := errors.AsType[wantedError](err); ok {
			want = string(wanted)
		}
		if errors.Is(err, errFlagFollows) {
			return Errorf("--%s needs a value, but the flag %s follows it: --%[1]s %[3]s", flag.Name, invalid.GetValue(), flag.Value.Type())
		}
		return Errorf("--%s %s: want %s", flag.Name, invalid.GetValue(), want)
	}
	return Error{err}
}

// nearestFlag returns the end of an error message about an unknown flag. It proposes the most
// similar flag of the command, or says that the name is a field of the query or a setting. It
// returns "" if none of these applies.
func nearestFlag(c *cobra.Command, name string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	field := strings.ReplaceAll(name, "-", "_")
	near := fault.Nearest(name, known)
	for _, meant := range []string{decode.MeantField(field), decode.MeantSetting(field)} {
		if flag := strings.ReplaceAll(meant, "_", "-"); near == "" && slices.Contains(known, flag) {
			near = flag
		}
	}
	switch {
	case near != "":
		return fmt.Sprintf("\n  did you mean --%s?", near)
	case slices.Contains(known, "query") && slices.ContainsFunc(dataset.QueryFields(), func(f dataset.Field[dataset.Query]) bool { return f.Name == field }):
		return fmt.Sprintf("\n  it is a field of the query: write --query '{\"%s\": …}'", field)
	}
	for _, s := range config.Settings() {
		if s.Name == field && slices.Contains(known, "config") {
			return fmt.Sprintf("\n  it is a setting: write it into the block server of the config file, or set %s in the environment", s.Env())
		}
	}
	return ""
}

// CheckDashes returns an Error if a long flag is written with one dash, because pflag would read
// the flag's name as shorthand letters. It also returns the command that args name.
func CheckDashes(root *cobra.Command, args []string) (*cobra.Command, error) {
	command, rest, err := root.Find(args)
	if err != nil {
		return root, nil //nolint:nilerr // cobra returns a better error for an unknown command
	}
	for _, arg := range rest {
		name, one := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if arg == "--" {
			break
		}
		if one && len(name) > 1 && command.Flags().Lookup(name) != nil {
			return command, Errorf("-%s: flags of more than one letter take two dashes\n  did you mean --%[1]s?", name)
		}
	}
	return command, nil
}

// AtMostOne returns an Error if a command has more than one argument. The error names the argument as
// the command's usage does, such as DATASET.
func AtMostOne(c *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	_, argument, _ := strings.Cut(c.Use, " ")
	return Errorf("%s takes one %s; %q is a second one%s", c.CommandPath(), strings.ReplaceAll(strings.Trim(argument, "[]"), "|", " or "), args[1], asFile(args[1]))
}

// NoArguments returns an Error if a command has arguments other than flags.
func NoArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Errorf("%s takes no arguments, such as %q%s", c.CommandPath(), args[0], asFile(args[0]))
}

// asFile returns the end of an error message about an argument. If the argument looks like the name
// of a config file, this text proposes --config.
func asFile(arg string) string {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg)) {
		return fmt.Sprintf("\n  to name a config file, write --config %s", arg)
	}
	return ""
}
