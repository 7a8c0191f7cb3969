// Package complete completes command lines in a shell. The placeholders in the usage of a command
// and of its flags decide what is completed: TABLE stands for the name of a table, COLUMNS for a
// list of columns, append|replace for one of two words. So a command needs no code for completion.
//
// These placeholders are completed:
//
//	TABLE, DATASET      tables and datasets; the first of several words with bars counts
//	DATASET|TABLE       of a flag: both
//	ENTRY               staging entries of the dataset that is the first argument
//	COLUMN, COLUMNS     of a flag: columns of the table or dataset that is the first argument
//	COLUMN              of an argument: columns by which promotions to the table are taken back
//	BRANCH              branches of the table that is the first argument
//	REF, FROM, TO, AT   branches and tags of that table
//	FILE                files
//	one|two             of a flag: these words, in lower case
//
// A flag that cmdline.SetInside marks is completed with names inside of the table that another flag names.
package complete

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/config"
)

// Sources finds the config file or the server that a command line or the environment names.
type Sources interface {
	// Open returns a client of the source. The caller closes it.
	Open(ctx context.Context, c *cobra.Command) (*client.Client, error)
	// Config returns the config file; nil if the source is a server, or if the file cannot be loaded.
	Config(c *cobra.Command) *config.Config
}

// names lists names for a word. inside is the table or dataset that has them; "" for names of tables
// and datasets. It returns nil on failure.
type names func(c *cobra.Command, inside string) []string

// completer completes the words of commands.
type completer struct {
	Sources
	limit time.Duration // to look names up
}

// Add sets up completion of the arguments and flags of a command and its subcommands. Names are
// looked up for the given time at most.
func Add(c *cobra.Command, sources Sources, limit time.Duration) error {
	return completer{sources, limit}.add(c)
}

func (e completer) add(c *cobra.Command) error {
	words := argumentsOf(c)
	if len(words) > 0 && e.ofArgument(words[0]) != nil {
		c.ValidArgsFunction = e.arguments(words)
	}
	var failed error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if of := e.flag(f, words); of != nil && failed == nil {
			failed = c.RegisterFlagCompletionFunc(f.Name, of)
		}
	})
	for _, below := range c.Commands() {
		if failed == nil {
			failed = e.add(below)
		}
	}
	return failed
}

// argumentsOf returns the placeholders of a command's arguments.
func argumentsOf(c *cobra.Command) []string {
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(c.Use))
	return words[1:]
}

// arguments completes arguments that have the given placeholders. If the last placeholder ends with
// an ellipsis, there may be any number of such arguments.
func (e completer) arguments(words []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		last := words[len(words)-1]
		var word string
		var given []string // the arguments with the same placeholder
		switch at := len(args); {
		case at < len(words):
			word = words[at]
		case strings.HasSuffix(last, "…"):
			word, given = last, args[len(words)-1:]
		}
		if strings.HasPrefix(word, "FILE") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		of := e.ofArgument(word)
		if of == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		first := ""
		if len(args) > 0 {
			first = args[0]
		}
		found := slices.DeleteFunc(of(c, first), func(name string) bool { return slices.Contains(given, name) })
		return beginning(found, begin), cobra.ShellCompDirectiveNoFileComp
	}
}

// ofArgument returns the function that lists the names for an argument with a placeholder, or nil.
func (e completer) ofArgument(word string) names {
	word, _, _ = strings.Cut(strings.TrimSuffix(word, "…"), "|")
	switch word {
	case "TABLE":
		return e.tables
	case "DATASET":
		return e.datasets
	case "ENTRY":
		return e.entries
	case "COLUMN":
		return e.promoted
	case "BRANCH":
		return e.branches
	case "FROM", "TO", "AT":
		return e.refs
	}
	return nil
}

// fixed matches the shape of a flag whose value is one of several words.
var fixed = regexp.MustCompile(`^[a-z]+(\|[a-z]+)*$`)

// flag returns the function that completes the values of a flag of a command whose arguments have
// the given placeholders, or nil.
func (e completer) flag(f *pflag.Flag, words []string) cobra.CompletionFunc {
	shape := cmdline.Shape(f)
	of := e.ofFlag(shape, words, cmdline.InsideOf(f))
	if of == nil {
		return nil
	}
	return func(c *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		inside := ""
		if other := cmdline.InsideOf(f); other != "" {
			inside = c.Flags().Lookup(other).Value.String()
		} else if len(args) > 0 {
			inside = args[0]
		}
		if shape == "COLUMNS" {
			return inList(of(c, inside), begin), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return beginning(of(c, inside), begin), cobra.ShellCompDirectiveNoFileComp
	}
}

// ofFlag returns the function that lists the values of a flag with the given shape, or nil. The flag
// belongs to a command whose arguments have the given placeholders. other is the flag that names the
// table that has the values; "": the first argument names it.
func (e completer) ofFlag(shape string, words []string, other string) names {
	dataset := other == "" && len(words) > 0 && strings.HasPrefix(words[0], "DATASET")
	switch shape {
	case "TABLE":
		return e.tables
	case "DATASET|TABLE":
		return func(c *cobra.Command, _ string) []string { return append(e.datasets(c, ""), e.tables(c, "")...) }
	case "COLUMN", "COLUMNS":
		if dataset {
			return ofNamed(e.datasetColumns)
		}
		return ofNamed(e.tableColumns)
	case "BRANCH":
		return ofNamed(e.branches)
	case "REF":
		return ofNamed(e.refs)
	}
	if fixed.MatchString(shape) {
		return func(*cobra.Command, string) []string { return strings.Split(shape, "|") }
	}
	return nil
}

// ofNamed returns a function that lists nothing as long as the command line does not name the table
// or dataset that has the names.
func ofNamed(of names) names {
	return func(c *cobra.Command, inside string) []string {
		if inside == "" {
			return nil
		}
		return of(c, inside)
	}
}

// beginning returns the names with a prefix.
func beginning(names []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// inList returns the values of a list that complete the text begin: its last name is completed.
func inList(names []string, begin string) []string {
	before := begin[:strings.LastIndexByte(begin, ',')+1]
	var out []string
	for _, name := range names {
		if !slices.Contains(strings.Split(before, ","), name) {
			out = append(out, before+name)
		}
	}
	return beginning(out, begin)
}
