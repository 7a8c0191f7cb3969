package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// innerNames is a function that lists names inside of a table or a dataset. Its second argument is the
// name of the table or the dataset. It returns nil on failure.
type innerNames func(c *cobra.Command, of string) []string

// flagNames lists the names for the value of a flag, after the given arguments.
type flagNames func(c *cobra.Command, args []string) []string

// namesAfter returns the function that lists the names for the further arguments of a command, and
// how many of them there are; -1 is any number. rest is the part of the usage after the first
// argument. The function is nil if the arguments are not such names.
func (e completer) namesAfter(rest string) (innerNames, int) {
	switch rest {
	case "ENTRY…":
		return e.entryNames, -1
	case "COLUMN…":
		return e.promotedNames, -1
	case "BRANCH":
		return e.branchNames, 1
	case "[FROM] [TO":
		return e.refNames, 2 //nolint:mnd // FROM and TO
	case "[AT":
		return e.refNames, 1
	}
	return nil, 0
}

// flagsInside returns, for the flags of a command whose values are names inside of a table or a
// dataset, the function that lists them. The first argument of the command names the table or
// dataset, or in stage, --from-table names it for some flags.
func (e completer) flagsInside(c *cobra.Command) map[string]flagNames {
	first := func(of innerNames) flagNames {
		return func(c *cobra.Command, args []string) []string {
			if len(args) == 0 {
				return nil
			}
			return of(c, args[0])
		}
	}
	source := func(of innerNames) flagNames {
		return func(c *cobra.Command, _ []string) []string {
			return of(c, c.Flags().Lookup("from-table").Value.String())
		}
	}
	switch c.Name() {
	case "stage":
		return map[string]flagNames{
			"branch": first(e.branchNames), "key": first(e.tableColumns), "from-ref": source(e.refNames), "columns": source(e.tableColumns),
		}
	case "log":
		return map[string]flagNames{"branch": first(e.refNames)}
	case "backfill":
		columns := first(e.datasetColumns)
		return map[string]flagNames{"key": columns, "replaces": columns, "removes": columns}
	}
	return map[string]flagNames{
		"branch": first(e.branchNames), "key": first(e.tableColumns), "columns": first(e.datasetColumns),
	}
}

// isList reports whether the value of a flag is a list of names with commas between them.
func isList(flag string) bool { return flag == "columns" || flag == "key" }

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

// entryNames returns the names of the staging entries of a dataset.
func (e completer) entryNames(c *cobra.Command, dataset string) (out []string) {
	flags := sourceOf(c)
	if conf := e.configured(flags); conf != nil {
		for _, d := range conf.Datasets {
			if d.Name != dataset {
				continue
			}
			for _, s := range d.Defaults().Staging {
				out = append(out, s.Name)
			}
		}
		return out
	}
	e.ask(c, flags, func(ctx context.Context, s *client.Client) {
		all, _ := s.Datasets(ctx)
		for _, d := range all {
			if d.Name == dataset {
				out = d.Staging
			}
		}
	})
	return out
}

// promotedNames returns the names of columns of a table by which demote takes promotions back, one
// for each promotion.
func (e completer) promotedNames(c *cobra.Command, table string) (out []string) {
	e.ask(c, sourceOf(c), func(ctx context.Context, s *client.Client) {
		found, _ := s.Log(ctx, decode.LogCommand{Table: table})
		for _, one := range found.Snapshots {
			if one.Demote != "" && !slices.Contains(out, one.Demote) {
				out = append(out, one.Demote)
			}
		}
	})
	return out
}

// branchNames returns the names of the branches of a table.
func (e completer) branchNames(c *cobra.Command, table string) []string {
	branches, _ := e.refs(c, table)
	return branches
}

// refNames returns the names of the branches and tags of a table. It omits the tags that keep
// snapshots for training jobs.
func (e completer) refNames(c *cobra.Command, table string) []string {
	branches, tags := e.refs(c, table)
	return slices.Sorted(slices.Values(append(branches, tags...)))
}

// refs returns the sorted names of the branches and of the tags of a table, or nil on failure.
func (e completer) refs(c *cobra.Command, table string) (branches, tags []string) {
	e.ask(c, sourceOf(c), func(ctx context.Context, s *client.Client) {
		found, _ := s.Log(ctx, decode.LogCommand{Table: table, Limit: 1})
		for _, one := range found.Snapshots {
			branches, tags = append(branches, one.Branches...), append(tags, one.Tags...)
		}
		for _, ref := range found.OtherRefs {
			if ref.Tag {
				tags = append(tags, ref.Name)
			} else {
				branches = append(branches, ref.Name)
			}
		}
	})
	slices.Sort(branches)
	slices.Sort(tags)
	return branches, tags
}

// tableColumns returns the names of the columns of a table.
func (e completer) tableColumns(c *cobra.Command, table string) []string {
	return e.columnsOf(c, map[string]any{"training": map[string]any{"table": table}})
}

// datasetColumns returns the names of the columns of a dataset.
func (e completer) datasetColumns(c *cobra.Command, dataset string) []string {
	return e.columnsOf(c, dataset)
}

// columnsOf returns the names of the columns of a dataset, which is a name or a definition.
func (e completer) columnsOf(c *cobra.Command, dataset any) (out []string) {
	query, err := json.Marshal(map[string]any{"dataset": dataset, "wire": "plain"})
	if err != nil {
		return nil
	}
	e.ask(c, sourceOf(c), func(ctx context.Context, s *client.Client) {
		_, schema, err := s.Plan(ctx, query)
		if err != nil {
			return
		}
		for _, f := range schema.Fields() {
			out = append(out, f.Name)
		}
	})
	return out
}

// ask calls f with a client of the source that the flags or the environment name, for a
// limited time. It does nothing if there is no such source.
func (e completer) ask(c *cobra.Command, flags sourceFlags, f func(context.Context, *client.Client)) {
	ctx, cancel := context.WithTimeout(commandContext(c), cmp.Or(e.lookup, completionTime))
	defer cancel()
	s, err := e.open(ctx, flags, io.Discard)
	if err != nil {
		return
	}
	defer s.Close() //nolint:errcheck // completion does not report failures
	f(ctx, s)
}
