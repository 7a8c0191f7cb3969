package complete

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// datasets returns the names of the datasets of the source.
func (e completer) datasets(c *cobra.Command, _ string) (out []string) {
	if conf := e.Config(c); conf != nil {
		for _, d := range conf.Datasets {
			out = append(out, d.Name)
		}
		return out
	}
	e.ask(c, func(ctx context.Context, s *client.Client) {
		all, _ := s.Datasets(ctx)
		for _, d := range all {
			out = append(out, d.Name)
		}
	})
	return out
}

// tables returns the names of the tables in the catalogs of the source. If the catalogs of a config
// file cannot be read in time, it returns the tables of the file's datasets.
func (e completer) tables(c *cobra.Command, _ string) (out []string) {
	conf := e.Config(c)
	if conf == nil {
		e.ask(c, func(ctx context.Context, s *client.Client) {
			all, _ := s.Tables(ctx, "")
			for _, t := range all {
				out = append(out, t.Table)
			}
		})
		return out
	}
	ctx, cancel := context.WithTimeout(commandContext(c), e.limit)
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

// entries returns the names of the staging entries of a dataset.
func (e completer) entries(c *cobra.Command, dataset string) (out []string) {
	if conf := e.Config(c); conf != nil {
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
	e.ask(c, func(ctx context.Context, s *client.Client) {
		all, _ := s.Datasets(ctx)
		for _, d := range all {
			if d.Name == dataset {
				out = d.Staging
			}
		}
	})
	return out
}

// promoted returns the names of columns of a table by which demote takes promotions back, one
// for each promotion.
func (e completer) promoted(c *cobra.Command, table string) (out []string) {
	e.ask(c, func(ctx context.Context, s *client.Client) {
		found, _ := s.Log(ctx, decode.LogCommand{Table: table})
		for _, one := range found.Snapshots {
			if one.Demote != "" && !slices.Contains(out, one.Demote) {
				out = append(out, one.Demote)
			}
		}
	})
	return out
}

// branches returns the names of the branches of a table.
func (e completer) branches(c *cobra.Command, table string) []string {
	branches, _ := e.branchesAndTags(c, table)
	return branches
}

// refs returns the names of the branches and tags of a table. It omits the tags that keep
// snapshots for training jobs.
func (e completer) refs(c *cobra.Command, table string) []string {
	branches, tags := e.branchesAndTags(c, table)
	return slices.Sorted(slices.Values(append(branches, tags...)))
}

// branchesAndTags returns the sorted names of the branches and of the tags of a table.
func (e completer) branchesAndTags(c *cobra.Command, table string) (branches, tags []string) {
	e.ask(c, func(ctx context.Context, s *client.Client) {
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
	e.ask(c, func(ctx context.Context, s *client.Client) {
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

// ask calls f with a client of the source, for a limited time. It does nothing if there is no
// source.
func (e completer) ask(c *cobra.Command, f func(context.Context, *client.Client)) {
	ctx, cancel := context.WithTimeout(commandContext(c), e.limit)
	defer cancel()
	s, err := e.Open(ctx, c)
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
