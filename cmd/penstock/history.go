package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/difftext"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/tablediff"
)

func tablesCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "tables [TABLE|NAMESPACE|CATALOG]", Short: "List the tables of the catalogs", Args: cmdline.AtMostOne,
		Long: "List the tables of the catalogs, of one catalog or namespace, or one table: rows, bytes and files of their\n" +
			"main branch, the time of its snapshot, their partitions, and the datasets that read them. Only metadata is\n" +
			"read: rows that delete files remove are counted both as rows and as deletes.",
		Example: "  penstock tables --config penstock.yaml\n" +
			"  penstock tables features --uri grpc://127.0.0.1:8815 --json",
	}
	from := newSourceFlags(c)
	asJSON := c.Flags().Bool("json", false, "print the tables as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			found, err := s.Tables(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if *asJSON {
				return p.printJSON(found)
			}
			return p.printTables(found)
		})
	}
	return c
}

// printTables prints a line for each table. If a table cannot be read, its line has the reason.
func (p terminal) printTables(found []history.Description) error {
	if len(found) == 0 {
		_, err := io.WriteString(p.stdout, "no tables\n")
		return err
	}
	lines := make([][]string, 0, len(found))
	for _, t := range found {
		at := ""
		if !t.Time.IsZero() {
			at = t.Time.Format(time.RFC3339)
		}
		state := strings.Join(t.Datasets, ", ")
		if t.Error != "" {
			state = t.Error
		}
		rows := countText(t.Rows)
		if t.Deletes != nil && *t.Deletes > 0 {
			rows += ", " + countText(t.Deletes) + " deletes"
		}
		lines = append(lines, []string{t.Table, rows, bytesText(t.Bytes), countText(t.Files), at, strings.Join(t.Partition, ", "), state})
	}
	return p.printTable([]string{"table", "rows", "bytes", "files", "time", "partitions", "datasets"}, lines)
}

// countText formats a count; nil means that the count is unknown.
func countText(n *int64) string {
	if n == nil {
		return "?"
	}
	return strconv.FormatInt(*n, 10)
}

// bytesText formats a number of bytes; nil means that the number is unknown.
func bytesText(n *int64) string {
	if n == nil {
		return "?"
	}
	return fault.Size(*n)
}

// logLimit is the default of log's --limit.
const logLimit = 20

func logCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "log TABLE", Short: "List the snapshots of a table, and the commands that revert them",
		Long: "List the snapshots of a branch of a table, the newest first: their times and writers, rows and bytes that they\n" +
			"added and removed, their branches and tags, and until when they are kept for training jobs. For a change that\n" +
			"Penstock made, the output has the command that reverts it. Branches and tags at other snapshots come last, with\n" +
			"the last statistics of penstock stats --keep. Counts are those that the writers recorded in the table's metadata.",
		Example: "  penstock log features.history --config penstock.yaml\n" +
			"  penstock log features.history --branch candidate --limit 3 --uri grpc://127.0.0.1:8815",
		Args: oneTable,
	}
	from := newSourceFlags(c)
	branch := cmdline.Text(c, "branch", "REF", "the branch or tag whose snapshots are listed (default main)")
	limit := c.Flags().Int("limit", logLimit, "how many snapshots are listed; 0: all")
	asJSON := c.Flags().Bool("json", false, "print the snapshots as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 0 {
			return cmdline.Errorf("--limit %d is below 0", *limit)
		}
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			found, err := s.Log(ctx, decode.LogCommand{Table: args[0], Branch: *branch, Limit: *limit})
			if err != nil {
				return err
			}
			return p.printResult(*asJSON, found, logText(found, from.text()))
		})
	}
	return c
}

// logText describes the snapshots of a table, with the commands that undo them. source is the
// result of sourceFlags.text, and is added to the end of each command.
func logText(l history.Log, source string) string {
	var b strings.Builder
	if len(l.Snapshots) == 0 {
		fmt.Fprintf(&b, "%s of table %s has no snapshot\n", l.Branch, l.Table)
	}
	for i, e := range l.Snapshots {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeEntry(&b, l, i, e, source)
	}
	if l.Older > 0 {
		fmt.Fprintf(&b, "\nand %s: --limit 0 lists all\n", olderText(l.Older))
	}
	if len(l.OtherRefs) > 0 {
		b.WriteString("\nat snapshots that are not listed:\n")
	}
	for _, r := range l.OtherRefs {
		kind := "branch"
		if r.Tag {
			kind = "tag"
		}
		fmt.Fprintf(&b, "  %s %s: snapshot %d\n", kind, r.Name, r.Snapshot)
	}
	if l.Statistics != nil {
		fmt.Fprintf(&b, "\nkept statistics: %s\n", l.Statistics)
	}
	return b.String()
}

func olderText(n int) string {
	if n == 1 {
		return "1 older snapshot"
	}
	return strconv.Itoa(n) + " older snapshots"
}

// writeEntry writes snapshot i of the log; 0 is the newest.
func writeEntry(b *strings.Builder, l history.Log, i int, e history.Entry, source string) {
	fmt.Fprintf(b, "snapshot %d  %s  %s", e.Snapshot, e.Time.Format(time.RFC3339), cmp.Or(e.Operation, "unknown operation"))
	if e.Writer != "" {
		fmt.Fprintf(b, "  by %s", e.Writer)
	}
	fmt.Fprintf(b, "\n  %s\n", changesText(e))
	for _, list := range []struct {
		what  string
		names []string
	}{{"branches", e.Branches}, {"tags", e.Tags}} {
		if len(list.names) > 0 {
			fmt.Fprintf(b, "  %s: %s\n", list.what, strings.Join(list.names, ", "))
		}
	}
	for _, pin := range e.Pins {
		until := "without an end"
		if !pin.Until.IsZero() {
			until = "until " + pin.Until.Format(time.RFC3339)
		}
		fmt.Fprintf(b, "  kept for training jobs %s\n", until)
	}
	switch {
	case e.Demote != "":
		fmt.Fprintf(b, "  to take the promotion back: %s%s\n", cmdline.Join("penstock", "demote", l.Table, e.Demote), source)
	case e.Undo != nil:
		which := ""
		if i > 0 {
			which = " and all later ones"
		}
		fmt.Fprintf(b, "  to take it%s back: %s%s\n", which, undoLine(client.Move{Table: l.Table, Branch: e.Undo.Branch, From: e.Undo.From, To: e.Undo.To}), source)
	}
}

// changesText describes the counts of a snapshot.
func changesText(e history.Entry) string {
	var parts []string
	for _, c := range []struct {
		text string
		n    *int64
	}{{"+%s rows", e.RowsAdded}, {"-%s rows", e.RowsRemoved}} {
		if c.n != nil && *c.n > 0 {
			parts = append(parts, fmt.Sprintf(c.text, countText(c.n)))
		}
	}
	for _, c := range []struct {
		text string
		n    *int64
	}{{"+%s", e.BytesAdded}, {"-%s", e.BytesRemoved}} {
		if c.n != nil && *c.n > 0 {
			parts = append(parts, fmt.Sprintf(c.text, bytesText(c.n)))
		}
	}
	return strings.Join(append(parts, countText(e.Rows)+" rows in all"), ", ")
}

func diffCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "diff TABLE [FROM] [TO]", Short: "Show what changed between two snapshots of a table",
		Long: "Show what changed between two snapshots of a table: rows, bytes and files, partitions with files that differ,\n" +
			"columns, and the keys that were added, gone or changed, with the number of changed keys of each column.\n" +
			"FROM and TO are ids of snapshots, or names of branches and tags; none is the table without rows. By\n" +
			"default, TO is main, and FROM is the snapshot before TO.\n\n" +
			"From files that both snapshots have, at most the key columns are read, to find keys of files that differ.\n" +
			"--files reads no rows.",
		Example: "  penstock diff features.history --config penstock.yaml\n" +
			"  penstock diff features.history main candidate --key request_id --uri grpc://127.0.0.1:8815\n" +
			"  penstock diff features.history 3051729675574597004 --files --json --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 3 { //nolint:mnd // a table and two snapshots
				return cmdline.Errorf("%s needs a table, and takes two snapshots at most", c.CommandPath())
			}
			return nil
		},
	}
	from := newSourceFlags(c)
	key := cmdline.Text(c, "key", "COLUMNS", "the columns of the key, separated by commas (default: the key that the table records, or the columns by which a dataset joins the table, or the bucketed columns, or those that rows are sorted by)")
	onlyFiles := c.Flags().Bool("files", false, "compare files, partitions and columns, and read no row")
	asJSON := c.Flags().Bool("json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *onlyFiles && *key != "" {
			return cmdline.Errorf("--files reads no row: leave out --key")
		}
		args = append(args, "", "")
		request := decode.DiffCommand{Table: args[0], From: args[1], To: args[2], Key: cmdline.Items(*key), OnlyFiles: *onlyFiles, Progress: true}
		g := p.readingProgress("diff", request.Table)
		var out *tablediff.Result
		err := g.end(p.withClient(c, from, func(ctx context.Context, s *client.Client) (err error) {
			out, err = s.Diff(ctx, request, g.report)
			return err
		}))
		if err != nil {
			return err
		}
		return p.printResult(*asJSON, out, difftext.Of(out, *onlyFiles))
	}
	return c
}
