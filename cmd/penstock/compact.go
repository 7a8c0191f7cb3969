package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/stage"
)

// compactFlags are the flags of compact.
type compactFlags struct {
	config, key, minFiles, fileSize, branch, progress *string
	partition                                         *[]string
	anyOrder, dry, asJSON                             *bool
}

func (p process) compactCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "compact TABLE", Short: "Rewrite the small files of a staging table, and those with deletes",
		Long: "Rewrite the files of a staging table that are small, have deletes on them, are of an older partition\n" +
			"spec, or do not declare the table's sort order. Deleted rows are left out, all other rows stay, each\n" +
			"once. Files are replaced in groups, by one commit each: a command that was stopped can be run\n" +
			"again, and continues with the rest.\n\n" +
			"Readers that take the first or the last row of a key find the same row as before: files whose rows\n" +
			"would change their order stay, and are counted. --any-order rewrites these too.",
		Example: "  penstock compact features.history --config penstock.yaml\n" +
			"  penstock compact features.history --partition ts_day=2026-11-01 --min-files 2 --dry-run --config penstock.yaml",
		Args: oneTable,
	}
	f := compactFlags{
		config:    configFlag(c),
		progress:  progressFlag(c),
		partition: cmdline.Texts(c, "partition", "FIELD=VALUE", "rewrite only files of partitions with this value, as in ts_day=2026-11-01; may be repeated"),
		key:       cmdline.Text(c, "key", "COLUMNS", "columns that are equal in all rows of a key, with commas (default: those of the table's buckets)"),
		minFiles:  cmdline.Text(c, "min-files", "N", "the number of small files of a partition from which on they are rewritten (default 4)"),
		fileSize:  cmdline.Text(c, "file-size", "SIZE", "the size of new files (default 256MiB); files of less than three quarters of it are small"),
		branch:    cmdline.Text(c, "branch", "NAME", "the branch whose files are rewritten (default main)"),
		anyOrder:  c.Flags().Bool("any-order", false, "also rewrite files whose rows of a key then come in another order; refused if a dataset takes the first or last of them"),
		dry:       c.Flags().Bool("dry-run", false, "print what would be rewritten"),
		asJSON:    c.Flags().Bool("json", false, "print the result as JSON"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		request, err := f.request(args[0])
		if err != nil {
			return err
		}
		g, err := p.progressOf(*f.progress, "compact", args[0])
		if err != nil {
			return err
		}
		request.Progress = g.compacting
		return g.end(p.withEngine(c.Context(), *f.config, func(ctx context.Context, e *engine) error {
			return p.compact(ctx, e, request, *f.asJSON)
		}))
	}
	return c
}

// compacting reports how far a compaction is. Rows and bytes are those of the files that are rewritten together.
func (g *commandProgress) compacting(at stage.CompactionProgress) {
	g.step("rewrite")
	g.at(progressCounts{RowsRead: at.RowsRead, RowsWritten: at.RowsWritten, Files: int64(at.Done), OfFiles: int64(at.All), Bytes: at.Bytes})
}

// oneTable checks that a command is given one table.
func oneTable(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cmdline.Errorf("%s needs a table", c.CommandPath())
	}
	return nil
}

// request returns the request that the flags make.
func (f compactFlags) request(table string) (stage.Compaction, error) {
	out := stage.Compaction{Table: table, Branch: *f.branch, Partition: *f.partition, Key: columnNames(*f.key), AnyOrder: *f.anyOrder, DryRun: *f.dry}
	if *f.minFiles != "" {
		n, err := strconv.Atoi(*f.minFiles)
		if err != nil || n < 2 { //nolint:mnd // one file becomes no fewer
			return out, cmdline.Errorf("--min-files %q is not a number above 1", *f.minFiles)
		}
		out.MinFiles = n
	}
	if *f.fileSize != "" {
		n, err := config.ParseBytes(*f.fileSize)
		if err != nil || n < 1<<20 {
			return out, cmdline.Errorf("--file-size %q is not a size of at least 1MiB, such as 256MiB", *f.fileSize)
		}
		out.FileBytes = n
	}
	return out, nil
}

// compact compacts a table and prints the result.
func (p process) compact(ctx context.Context, e *engine, request stage.Compaction, asJSON bool) error {
	if request.AnyOrder {
		if err := e.checkAnyOrder(request.Table); err != nil {
			return err
		}
	}
	ctx, entered := e.budget.Enter(ctx, "compact")
	defer entered.Release()
	out, err := e.stager(1).Compact(ctx, request)
	if err != nil {
		return err
	}
	return p.printResult(asJSON, out, compactText(request, out))
}

// compactText describes a result.
func compactText(request stage.Compaction, r stage.CompactionResult) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case r.Files == 0:
		line("no file of table %s needs to be rewritten", request.Table)
	case request.DryRun:
		line("dry run: nothing was written to table %s", request.Table)
		line("to rewrite: files %d, bytes %d, rows %d", r.Files, r.Bytes, r.Rows)
		line("new files about %d", r.FilesWritten)
	default:
		line("snapshot %d of table %s, after %s", r.Snapshot, request.Table, fault.Count(r.Commits, "commit"))
		line("rewritten: files %d, bytes %d, rows %d", r.Files, r.Bytes, r.Rows)
		line("new: files %d, bytes %d", r.FilesWritten, r.BytesWritten)
		line("deleted rows left out: %d", r.Deleted)
	}
	if r.Kept > 0 {
		line("files that stay, since rows of a key would change their order: %d", r.Kept)
		line("(--key names columns that are equal in all rows of a key; --any-order rewrites them all the same)")
	}
	return b.String()
}

// checkAnyOrder returns Invalid if a dataset of the config file takes rows of a table by the order in which they
// were written.
func (e *engine) checkAnyOrder(table string) error {
	of := trainedKeys{engine: e, staged: table}
	for _, d := range e.loader.Datasets() {
		takes := d.Training.Distinct != nil && of.stages(d.Training.Table)
		for _, s := range d.Staging {
			takes = takes || s.Duplicates.Choose() && of.stages(s.Table)
		}
		if takes {
			return fault.InvalidField("any-order", "dataset %s takes the first or last of several rows of table %s, and then could find other rows than now", d.Name, table).
				In(table, "").WithRemedy("leave --any-order out: files whose rows would change their order stay")
		}
	}
	return nil
}
