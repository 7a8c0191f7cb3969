package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/maintenance"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	changeFlags
	snapshot, token, branch *string
	partition               *[]string
	duplicates, dry, asJSON *bool
}

func restoreCommand(p process) *cobra.Command {
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
		changeFlags: newChangeFlags(c),
		snapshot:    cmdline.Text(c, "snapshot", "ID", "the snapshot whose rows are restored"),
		partition:   cmdline.Texts(c, "partition", "FIELD=VALUE", "restore only partitions with this value, as in ts_day=2026-11-01; may be repeated"),
		token:       cmdline.Text(c, "token", "TOKEN", "the name of this change, which is then made once (default: a new one)"),
		branch:      cmdline.Text(c, "branch", "NAME", "the branch to commit to (default main)"),
		duplicates:  c.Flags().Bool("allow-duplicates", false, "restore partitions even if rows of them or of other partitions have the same key"),
		dry:         c.Flags().Bool("dry-run", false, "print what would be restored"),
		asJSON:      c.Flags().Bool("json", false, "print the result as JSON"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(*f.snapshot, 10, 64)
		if err != nil || id <= 0 {
			return cmdline.Errorf("--snapshot %q is not the id of a snapshot", *f.snapshot)
		}
		request := decode.RestoreCommand{
			Table: args[0], Branch: *f.branch, Token: *f.token, Snapshot: id, Partition: *f.partition, AllowDuplicates: *f.duplicates, DryRun: *f.dry, Progress: true,
		}
		return p.change(c, f.changeFlags, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			var out maintenance.RestorationResult
			if err := s.Change(ctx, "restore", request, &out, g.report); err != nil {
				return err
			}
			text := restoreText(request, out)
			if out.Snapshot != 0 && !out.Existed {
				text += undoText(client.Move{Table: request.Table, Branch: request.Branch, From: out.Parent, To: out.Snapshot}, f.text())
			}
			return p.printResult(*f.asJSON, out, text)
		})
	}
	return c
}

// restoreText describes a result.
func restoreText(request decode.RestoreCommand, r maintenance.RestorationResult) string {
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
	line("rows %d, %s", r.Rows, fault.Size(r.Bytes))
	line("files replaced: %d", r.Removed)
	line("token %s", r.Token)
	return b.String()
}
