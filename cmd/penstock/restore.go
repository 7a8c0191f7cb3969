package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/loader/stage"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	config, snapshot, token, branch, progress *string
	partition                                 *[]string
	dry, asJSON                               *bool
}

func (p process) restoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "restore TABLE", Short: "Restore a staging table, or some of its partitions, as they were at a snapshot",
		Long: "Restore the rows that a staging table, or some of its partitions, had at a snapshot, as one commit. The files\n" +
			"of that time are copied under new names, without the rows that were deleted by then: the old ones are\n" +
			"deleted when snapshots expire. What was committed to the partitions since then is replaced.\n\n" +
			"A call that is repeated with its --token writes nothing, and prints the snapshot that has the rows.",
		Example: "  penstock restore features.history --snapshot 4813720985327 --partition ts_day=2026-11-01 --config penstock.yaml\n" +
			"  penstock restore features.history --snapshot 4813720985327 --dry-run --config penstock.yaml",
		Args: oneTable,
	}
	f := restoreFlags{
		config:    configFlag(c),
		progress:  progressFlag(c),
		snapshot:  cmdline.Text(c, "snapshot", "ID", "the snapshot whose rows are restored"),
		partition: cmdline.Texts(c, "partition", "FIELD=VALUE", "restore only partitions with this value, as in ts_day=2026-11-01; may be repeated"),
		token:     cmdline.Text(c, "token", "TOKEN", "the name of this change, which is then made once (default: a new one)"),
		branch:    cmdline.Text(c, "branch", "NAME", "the branch to commit to (default main)"),
		dry:       c.Flags().Bool("dry-run", false, "print what would be restored"),
		asJSON:    c.Flags().Bool("json", false, "print the result as JSON"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(*f.snapshot, 10, 64)
		if err != nil || id <= 0 {
			return cmdline.Errorf("--snapshot %q is not the id of a snapshot", *f.snapshot)
		}
		g, err := p.progressOf(*f.progress, "restore", args[0])
		if err != nil {
			return err
		}
		request := stage.Restoration{Table: args[0], Branch: *f.branch, Token: *f.token, Snapshot: id, Partition: *f.partition, DryRun: *f.dry, Progress: g.staging}
		return g.end(p.withEngine(c.Context(), *f.config, func(ctx context.Context, e *engine) error {
			return p.restore(ctx, e, request, *f.asJSON)
		}))
	}
	return c
}

// restore restores partitions and prints the result.
func (p process) restore(ctx context.Context, e *engine, request stage.Restoration, asJSON bool) error {
	ctx, entered := e.budget.Enter(ctx, "restore")
	defer entered.Release()
	out, err := e.stager(1).Restore(ctx, request)
	if err != nil {
		return err
	}
	return p.printResult(asJSON, out, restoreText(request, out))
}

// restoreText describes a result.
func restoreText(request stage.Restoration, r stage.RestorationResult) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case r.Existed:
		line("snapshot %d of table %s has the rows already: nothing was written", r.Snapshot, request.Table)
		line("token %s", r.Token)
		return b.String()
	case r.Copied+r.Rewritten+r.Removed == 0:
		line("table %s has these rows: nothing was written", request.Table)
		return b.String()
	case request.DryRun:
		line("dry run: nothing was written to table %s", request.Table)
	default:
		line("snapshot %d of table %s", r.Snapshot, request.Table)
	}
	line("files copied %d, rewritten without deleted rows %d, unchanged %d", r.Copied, r.Rewritten, r.Unchanged)
	line("rows %d, bytes %d", r.Rows, r.Bytes)
	line("files replaced: %d", r.Removed)
	line("token %s", r.Token)
	return b.String()
}
