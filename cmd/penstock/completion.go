package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/rowformat"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// completionTime bounds the time to look up names of datasets and tables.
const completionTime = time.Second

// completer completes command lines in a shell. It takes the names of datasets and tables from the
// config file or the server that the command line names.
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
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0 || all:
			return beginning(names(c), begin), cobra.ShellCompDirectiveNoFileComp
		case strings.HasPrefix(rest, "[FROM]") && len(args) <= strings.Count(rest, "["):
			return beginning(e.refNames(c, args[0]), begin), cobra.ShellCompDirectiveNoFileComp
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
	for name, of := range values {
		if c.Flags().Lookup(name) == nil {
			continue
		}
		err := c.RegisterFlagCompletionFunc(name, func(c *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return beginning(of(c), begin), cobra.ShellCompDirectiveNoFileComp
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
func (e completer) namesFor(word string) func(*cobra.Command) []string {
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
	ctx, cancel := context.WithTimeout(commandContext(c), completionTime)
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

// refNames returns the names of the branches and tags of a table in the catalogs of a command's
// config file. It omits the tags that keep snapshots for training jobs. It returns nil on failure.
func (e completer) refNames(c *cobra.Command, table string) (out []string) {
	conf := e.configured(sourceOf(c))
	if conf == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(commandContext(c), completionTime)
	defer cancel()
	built, err := engine.Assemble(ctx, conf, nil)
	if err != nil {
		return nil
	}
	defer built.Close()
	held, err := built.Budget.Reserve("the snapshots of table "+table, 0)
	if err != nil {
		return nil
	}
	defer held.Release()
	found, err := built.Tables.History(ctx, table, held)
	if err != nil {
		return nil
	}
	for name, ref := range found.Refs {
		if name != catalog.PinTag(ref.Snapshot) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// ask calls f with a client of the server that the flags or the environment name, for at most
// completionTime. It does nothing if there is no such server.
func (e completer) ask(c *cobra.Command, flags sourceFlags, f func(context.Context, *client.Client)) {
	if remote, err := e.serverOf(flags); err != nil || !remote || *flags.uri == "" && e.orEnv("", envURI) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(commandContext(c), completionTime)
	defer cancel()
	s, err := e.open(ctx, flags, io.Discard)
	if err != nil {
		return
	}
	defer s.Close() //nolint:errcheck // completion does not report failures
	f(ctx, s)
}

// commandContext returns the context of a command, or the background context if completion has set
// none.
func commandContext(c *cobra.Command) context.Context {
	if ctx := c.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
