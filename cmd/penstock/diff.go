package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/tablediff"
)

func diffCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "diff TABLE [FROM] [TO]", Short: "Show what changed between two snapshots of a table",
		Long: "Show what changed between two snapshots of a table: rows, bytes and files, partitions with files that differ,\n" +
			"columns, and the keys that were added, gone or changed, with the number of changed keys of each column.\n" +
			"FROM and TO are ids of snapshots, or names of branches and tags. TO is main by default, and FROM the\n" +
			"snapshot that TO was made from; none is a table without rows.\n\n" +
			"Of files that both snapshots have, at most the columns of the key are read, to tell whether they have the\n" +
			"keys of files that differ. --files reads no row.",
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
	key := cmdline.Text(c, "key", "COLUMNS", "the columns of the key, separated by commas (default: those by which a dataset joins the table, or the bucketed columns, or those that rows are sorted by)")
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
		return p.printResult(*asJSON, out, diffText(out, *onlyFiles))
	}
	return c
}

// shownPartitions is the maximum number of partitions in the result as text.
const shownPartitions = 20

// diffText describes what changed.
func diffText(r *tablediff.Result, onlyFiles bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("table %s", r.Table)
	line("from  %s", stateText(r.From))
	line("to    %s", stateText(r.To))
	for _, f := range []struct {
		what  string
		files tablediff.FileCounts
	}{
		{"only to has", r.Files.Added},
		{"only from has", r.Files.Removed},
		{"with other deletes", r.Files.Deletes},
		{"the same in both", r.Files.Same},
	} {
		if f.files.Files > 0 {
			line("files %s: %s", f.what, fileCountsText(f.files))
		}
	}
	writeColumns(line, r.Columns)
	if n := len(r.Partitions) + r.MorePartitions; n > 0 && r.Partitions[0].Partition != "" {
		line("partitions with files that differ: %d", n)
		for _, p := range r.Partitions[:min(len(r.Partitions), shownPartitions)] {
			line("  %s: %s", p.Partition, partitionText(p))
		}
		if n > shownPartitions {
			line("  and %d more: --json lists them", n-shownPartitions)
		}
	}
	switch {
	case r.Keys != nil:
		writeKeys(line, r.Keys)
	case !onlyFiles:
		line("keys are not compared, since the key of the table is unknown: --key names its columns")
	}
	return b.String()
}

// stateText describes a snapshot.
func stateText(s tablediff.State) string {
	if s.Snapshot == 0 {
		return "no snapshot, 0 rows"
	}
	text := fmt.Sprintf("snapshot %d  %s  %d rows", s.Snapshot, s.Time.Format(time.RFC3339), s.Rows)
	if s.Deletes > 0 {
		text += fmt.Sprintf(", %d deletes", s.Deletes)
	}
	return text + fmt.Sprintf(", %s, %s", fault.Size(s.Bytes), fault.Count(s.Files, "file"))
}

func fileCountsText(c tablediff.FileCounts) string {
	return fmt.Sprintf("%d, %d rows, %s", c.Files, c.Rows, fault.Size(c.Bytes))
}

// partitionText describes the files of a partition that differ.
func partitionText(p tablediff.PartitionChange) string {
	var parts []string
	add := func(sign string, c tablediff.FileCounts, what string) {
		if c.Files > 0 {
			parts = append(parts, fmt.Sprintf("%s%s, %s%d rows%s", sign, fault.Count(c.Files, "file"), sign, c.Rows, what))
		}
	}
	add("+", p.Added, "")
	add("-", p.Removed, "")
	add("", p.Deletes, " with other deletes")
	return strings.Join(parts, "; ")
}

// writeColumns writes a line for each kind of change of columns.
func writeColumns(line func(string, ...any), c *tablediff.ColumnChanges) {
	if c.IsZero() {
		return
	}
	for _, names := range []struct {
		what  string
		names []string
	}{{"added", c.Added}, {"dropped", c.Dropped}} {
		if len(names.names) > 0 {
			line("columns %s: %s", names.what, strings.Join(names.names, ", "))
		}
	}
	for _, one := range c.Renamed {
		line("column renamed: %s to %s", one.From, one.To)
	}
	for _, one := range c.Retyped {
		line("type of column %s: %s to %s", one.Column, one.From, one.To)
	}
}

// writeKeys writes the lines about keys.
func writeKeys(line func(string, ...any), k *tablediff.KeyChanges) {
	line("keys (%s) of the files that differ, which have %d rows in from and %d in to:", strings.Join(k.Columns, ", "), k.RowsBefore, k.RowsAfter)
	changed := make([]string, len(k.ChangedKeys))
	for i, one := range k.ChangedKeys {
		changed[i] = one.Key + " (" + strings.Join(one.Columns, ", ") + ")"
	}
	for _, of := range []struct {
		what  string
		n     int64
		shown []string
	}{{"added", k.Added, k.AddedKeys}, {"gone", k.Gone, k.GoneKeys}, {"changed", k.Changed, changed}, {"the same", k.Same, nil}} {
		text := fmt.Sprintf("  %s: %d", of.what, of.n)
		if len(of.shown) > 0 {
			text += ", such as " + strings.Join(of.shown, "; ")
		}
		line("%s", text)
	}
	for _, column := range k.ByColumn {
		line("  column %s: %d keys changed", column.Column, column.Keys)
	}
	if k.Repeated > 0 {
		line("  in several rows: %d; their values are not compared, since the key does not tell which rows belong together", k.Repeated)
	}
	if len(k.NotCompared) > 0 {
		line("  columns that are not compared: %s", strings.Join(k.NotCompared, ", "))
	}
}
