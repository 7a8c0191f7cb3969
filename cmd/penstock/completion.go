package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/rowformat"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/loader/dataset"
)

// completionTime bounds the time to look up names in catalogs or on a server.
const completionTime = time.Second

// completer completes command lines in a shell. It takes the names of datasets and tables, and the
// names inside of them, from the config file or the server that the command line names.
type completer struct{ environment }

// arguments sets up completion of the arguments of a command and its subcommands. The
// placeholders in the usage line, such as TABLE, decide what is completed.
func (e completer) arguments(c *cobra.Command) {
	for _, below := range c.Commands() {
		e.arguments(below)
	}
	_, arguments, _ := strings.Cut(c.Use, " ")
	first, rest, _ := strings.Cut(strings.Trim(arguments, "[]"), " ")
	names := e.namesFor(first)
	if names == nil {
		return
	}
	all := strings.HasSuffix(first, "…") // whether every argument is such a name, not only the first
	after, most := e.namesAfter(rest)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0 || all:
			return beginning(names(c), begin), cobra.ShellCompDirectiveNoFileComp
		case after != nil && (most < 0 || len(args) <= most):
			given := func(name string) bool { return most < 0 && slices.Contains(args[1:], name) }
			return beginning(slices.DeleteFunc(after(c, args[0]), given), begin), cobra.ShellCompDirectiveNoFileComp
		case strings.HasPrefix(rest, "FILE"):
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// flags sets up completion of flag values of a command and its subcommands.
func (e completer) flags(c *cobra.Command) error {
	values := map[string]func(*cobra.Command) []string{
		"format":       fixedValues(rowformat.Names()...),
		"mode":         fixedValues(string(dataset.WriteAppend), string(dataset.WriteReplace)),
		"progress":     fixedValues(progressText, progressJSON),
		"like":         e.tableNames,
		"only-keys-of": func(c *cobra.Command) []string { return append(e.datasetNames(c), e.tableNames(c)...) },
	}
	if c.Flags().Lookup("spark-catalog") != nil && c.Name() == "promote" {
		values["print"] = fixedValues(printSpark)
	}
	inside := e.flagsInside(c)
	for name, of := range values {
		inside[name] = func(c *cobra.Command, _ []string) []string { return of(c) }
	}
	for name, of := range inside {
		if c.Flags().Lookup(name) == nil {
			continue
		}
		err := c.RegisterFlagCompletionFunc(name, func(c *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if isList(name) {
				return inList(of(c, args), begin), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			}
			return beginning(of(c, args), begin), cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil {
			return err
		}
	}
	for _, below := range c.Commands() {
		if err := e.flags(below); err != nil {
			return err
		}
	}
	return nil
}

// beginning returns the names with a prefix.
func beginning(names []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// fixedValues returns a function that returns the given values.
func fixedValues(values ...string) func(*cobra.Command) []string {
	return func(*cobra.Command) []string { return values }
}

// namesFor returns the function that lists the names for a word in the usage of a command, or nil.
// Of several words with bars between them, the first counts.
func (e completer) namesFor(word string) func(*cobra.Command) []string {
	word, _, _ = strings.Cut(word, "|")
	switch strings.TrimSuffix(word, "…") {
	case "TABLE":
		return e.tableNames
	case "DATASET":
		return e.datasetNames
	}
	return nil
}

// sourceOf returns the source flags of a command. Flags that the command lacks are empty.
func sourceOf(c *cobra.Command) sourceFlags {
	text := func(name string) *string {
		value := ""
		if f := c.Flags().Lookup(name); f != nil {
			value = f.Value.String()
		}
		return &value
	}
	return sourceFlags{config: text("config"), uri: text("uri"), tlsCA: text("tls-ca"), tlsCert: text("tls-cert"), tlsKey: text("tls-key"), token: text("token-file")}
}

// configured loads the config file that the flags name. If the flags name neither a config file nor
// a server, it loads the config file that the environment names. It returns nil if there is no
// file, or if the file cannot be loaded.
func (e environment) configured(flags sourceFlags) *config.Config {
	file := *flags.config
	if file == "" && *flags.uri == "" {
		file = e.orEnv("", envConfig)
	}
	if file == "" {
		return nil
	}
	c, err := e.load(file, nil)
	if err != nil {
		return nil
	}
	return c
}

// datasetNames returns the names of the datasets of a command's config file or server, or nil on
// failure.
func (e completer) datasetNames(c *cobra.Command) (out []string) {
	flags := sourceOf(c)
	if conf := e.configured(flags); conf != nil {
		for _, d := range conf.Datasets {
			out = append(out, d.Name)
		}
		return out
	}
	e.ask(c, flags, func(ctx context.Context, s *client.Client) {
		all, _ := s.Datasets(ctx)
		for _, d := range all {
			out = append(out, d.Name)
		}
	})
	return out
}

// tableNames returns the names of the tables in the catalogs of a command's config file, or on its
// server. If the catalogs cannot be read in time, it returns the tables of the config file's
// datasets.
func (e completer) tableNames(c *cobra.Command) (out []string) {
	flags := sourceOf(c)
	conf := e.configured(flags)
	if conf == nil {
		e.ask(c, flags, func(ctx context.Context, s *client.Client) {
			all, _ := s.Tables(ctx, "")
			for _, t := range all {
				out = append(out, t.Table)
			}
		})
		return out
	}
	ctx, cancel := context.WithTimeout(commandContext(c), cmp.Or(e.lookup, completionTime))
	defer cancel()
	if built, err := engine.Assemble(ctx, conf, nil); err == nil {
		defer built.Close()
		if out, err = built.Tables.TableNames(ctx, ""); err == nil {
			return out
		}
	}
	for _, d := range conf.Datasets {
		out = append(out, d.Training.Table)
		for _, s := range d.Staging {
			out = append(out, s.Table)
		}
	}
	return out
}

// commandContext returns the context of a command, or the background context if completion has set
// none.
func commandContext(c *cobra.Command) context.Context {
	if ctx := c.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
