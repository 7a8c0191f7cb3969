package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/backfill"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// backfillFlags are the flags that define a feature and the layout of its staging table.
type backfillFlags struct {
	config            *string
	table             *string
	columns           *[]string
	replaces, removes *string
	key, sort         *string
	buckets           *int
	unaligned         *bool
	sparkCatalog      *string
	print             *string
}

// The values of --print.
const (
	printAll  = "all"
	printSQL  = "sql"
	printYAML = "yaml"
)

func backfillCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "backfill DATASET|TABLE", Short: "Print the Spark SQL of a feature's staging table, and its dataset",
		Long: "Print the Spark SQL that creates and fills a staging table for a feature. Its layout follows the\n" +
			"training table of a dataset: the same partition of time, and a number of buckets of the key that\n" +
			"divides the training table's number or is a multiple of it. Rows are sorted by the key. The command\n" +
			"also prints the dataset that reads the table.\n\n" +
			"With --replaces, the new feature gets a column of its own, and the dataset renames it to the old\n" +
			"column. Given a training table that no dataset uses, the command proposes a dataset. It executes\n" +
			"nothing and reads only metadata. docs/features.md has an example. For SQL that one machine can\n" +
			"run, use penstock stage --sql.",
		Example: "  penstock init backfill homefeed --config penstock.yaml --table features.ctr_v2 --column ctr_v2:float\n" +
			"  penstock init backfill homefeed --config penstock.yaml --table features.ctr_v2 --column ctr_v2:float --replaces ctr\n" +
			"  penstock init backfill homefeed --config penstock.yaml --removes ctr",
	}
	f := backfillFlags{
		config:       configFlag(c),
		table:        cmdline.Text(c, "table", "TABLE", "the staging table to create, as [catalog.]namespace.table"),
		columns:      cmdline.Texts(c, "column", "NAME:TYPE", "a column to backfill, such as clicks:list<long>; repeat it for several"),
		replaces:     cmdline.Text(c, "replaces", "COLUMN", "the column of the dataset that gets the values of the new column"),
		removes:      cmdline.Text(c, "removes", "COLUMN", "the column of the dataset to remove; without --table and --column"),
		key:          cmdline.Text(c, "key", "COLUMNS", "the columns of the training table to join by (default: the dataset's key)"),
		sort:         cmdline.Text(c, "sort", "COLUMNS", "the columns to sort the staging table by (default: its key)"),
		buckets:      c.Flags().Int("buckets", 0, "the buckets of the key (default: as many as the training table has)"),
		unaligned:    c.Flags().Bool("unaligned", false, "no partition of time: a row applies to all partitions of the training table"),
		sparkCatalog: cmdline.Text(c, "spark-catalog", "NAME", "the name of the catalog in Spark (default: names are as in the config file)"),
		print:        cmdline.Text(c, "print", "sql|yaml|all", "the SQL, the dataset, or SQL with the dataset as comments (default all)"),
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cmdline.Errorf("%s needs one DATASET or TABLE, not %d", c.CommandPath(), len(args))
		}
		return f.check(c)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.withConfig(c.Context(), *f.config, nil, func(ctx context.Context, c *config.Config, e *engine.Engine) error {
			return p.backfill(ctx, c, e, f, args[0])
		})
	}
	return c
}

// check returns an error for flags that cannot be combined.
func (f backfillFlags) check(c *cobra.Command) error {
	layout := []string{"table", "column", "replaces", "key", "sort", "buckets", "unaligned"}
	given := func(name string) bool { return c.Flags().Changed(name) }
	switch {
	case !slices.Contains([]string{"", printAll, printSQL, printYAML}, *f.print):
		return cmdline.Errorf("--print %s: want sql, yaml or all", *f.print)
	case given("removes"):
		if i := slices.IndexFunc(layout, given); i >= 0 {
			return cmdline.Errorf("--removes cannot be combined with --%s, because it creates no table", layout[i])
		}
	case *f.table == "" || len(*f.columns) == 0:
		return cmdline.Errorf("%s needs --table TABLE and --column NAME:TYPE, or --removes COLUMN", c.CommandPath())
	case given("replaces") && len(*f.columns) > 1:
		return cmdline.Errorf("--replaces takes one --column, since one column replaces the old one")
	}
	return nil
}

// backfill prints the script of a feature.
func (p process) backfill(ctx context.Context, c *config.Config, e *engine.Engine, f backfillFlags, of string) error {
	tables := e.Tables.Untagged
	target, err := backfillTarget(ctx, c, tables, of)
	if err != nil {
		return err
	}
	target.SQLName = func(table string) string { return sparkName(c, table, *f.sparkCatalog) }
	script, err := f.script(ctx, c, tables, target)
	if err != nil {
		return err
	}
	text := script.Text()
	switch *f.print {
	case printSQL:
		text = script.SQL
	case printYAML:
		text = script.YAML()
	}
	_, err = io.WriteString(p.stdout, text)
	return err
}

// script generates the script that the flags specify.
func (f backfillFlags) script(ctx context.Context, c *config.Config, tables catalog.Catalog, target backfill.Target) (*backfill.Script, error) {
	if *f.removes != "" {
		return backfill.Remove(target, *f.removes)
	}
	if err := checkAbsent(ctx, c, tables, *f.table); err != nil {
		return nil, err
	}
	plan := backfill.StagingPlan{Table: *f.table, Key: namesIn(*f.key), Buckets: *f.buckets, Unaligned: *f.unaligned, Sort: namesIn(*f.sort)}
	for _, text := range *f.columns {
		feature, err := backfill.ParseFeature(text)
		if err != nil {
			return nil, err
		}
		plan.Features = append(plan.Features, feature)
	}
	return layOut(target, plan, *f.replaces)
}

// namesIn returns the names in a comma-separated list; nil for "".
func namesIn(list string) []string {
	if list == "" {
		return nil
	}
	out := strings.Split(list, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// backfillTarget returns a dataset of the config file, and the tables of the dataset. If name is
// the name of a table, it returns a new dataset that has this table as its training table.
func backfillTarget(ctx context.Context, c *config.Config, tables catalog.Catalog, name string) (backfill.Target, error) {
	target := backfill.Target{}
	var known []string
	for _, d := range c.Datasets {
		if known = append(known, d.Name); d.Name == name {
			target.Dataset = d
		} else {
			target.Others = append(target.Others, d)
		}
	}
	if target.Dataset.Name == "" {
		if !strings.Contains(name, ".") {
			return target, dataset.Unknown(name, known)
		}
		target.Dataset = dataset.Dataset{Name: unusedName(name, known), Training: dataset.Training{Table: name}}
	}
	err := readTables(ctx, tables, &target)
	return target, err
}

// readTables reads the tables of a target's dataset.
func readTables(ctx context.Context, tables catalog.Catalog, target *backfill.Target) (err error) {
	if target.Training, err = tables.Table(ctx, target.Dataset.Training.Table, target.Dataset.Training.Ref); err != nil {
		return err
	}
	for _, s := range target.Dataset.Staging {
		t, err := tables.Table(ctx, s.Table, s.Ref)
		if err != nil {
			return err
		}
		target.Staging = append(target.Staging, t)
	}
	return nil
}

// unusedName returns the last part of a table's name, or, if a dataset already has that name, the
// whole name with underscores instead of dots.
func unusedName(table string, known []string) string {
	short := table[strings.LastIndexByte(table, '.')+1:]
	if slices.Contains(known, short) {
		return strings.ReplaceAll(table, ".", "_")
	}
	return short
}

// checkAbsent returns an error if a table already exists, or if no catalog of the config file could
// contain it.
func checkAbsent(ctx context.Context, c *config.Config, tables catalog.Catalog, table string) error {
	if err := checkNamespace(table); err != nil {
		return err
	}
	_, err := tables.Table(ctx, table, dataset.Ref{})
	switch {
	case err == nil:
		return fault.New(fault.Conflict, "table %s already exists", table).In(table, "").
			WithRemedy("name another one with --table, or add the entry to the dataset yourself: docs/features.md")
	case fault.KindOf(err) != fault.NotFound, c.DefaultCatalog() == "" && catalogOf(c, table) == "":
		return err
	}
	return nil
}

// checkNamespace returns an error for a name of a table without a namespace.
func checkNamespace(table string) error {
	if !strings.Contains(table, ".") {
		return fault.InvalidField("--table", "%q has no namespace", table).WithRemedy("write namespace.table")
	}
	return nil
}

// catalogOf returns the catalog that a table's name begins with; "" if there is none.
func catalogOf(c *config.Config, table string) string {
	first, rest, _ := strings.Cut(table, ".")
	if _, ok := c.Catalogs[first]; ok && strings.Contains(rest, ".") {
		return first
	}
	return ""
}

// sparkName returns the name of a table in Spark, given the name of the table's catalog in Spark.
// If that name is "", it returns the table's name in the config file.
func sparkName(c *config.Config, table, name string) string {
	if name == "" {
		return table
	}
	if of := catalogOf(c, table); of != "" {
		table = strings.TrimPrefix(table, of+".")
	}
	return name + "." + table
}
