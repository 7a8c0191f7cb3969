package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/staged"
)

func stageCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "stage TABLE FILE…", Short: "Write the rows of Parquet files to a staging table",
		Long: "Write the rows of Parquet files to a staging table, sorted and bucketed as the table is, as one\n" +
			"commit. Columns are matched by name: int is widened to long and float to double, optional\n" +
			"columns that the files lack are null, and everything else that differs is an error.\n\n" +
			"A table that does not exist is created if --key and --buckets or --like are given. Its\n" +
			"catalog must allow writes to its namespace (docs/changes.md).\n\n" +
			"A call that is repeated with its --token writes nothing, and prints the snapshot that has the rows.",
		Example: "  penstock stage features.history day-*.parquet --config penstock.yaml\n" +
			"  penstock stage features.embedding new.parquet --key request_id --like ml.impressions --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 { //nolint:mnd // a table and a file
				return cmdline.Errorf("%s needs a table and at least one Parquet file", c.CommandPath())
			}
			return nil
		},
	}
	flags := newChangeFlags(c)
	call := stageCall{TableWrite: dataset.TableWrite{Progress: true}}
	mode := cmdline.Text(c, "mode", "append|replace", "add rows (the default), or replace the days and other partitions that have new rows")
	key := cmdline.Text(c, "key", "COLUMNS", "the columns of the key, separated by commas (default: the table's bucketed columns)")
	sort := cmdline.Text(c, "sort", "COLUMNS", "of a new table: the columns to sort by, separated by commas, as in user_id,\"ts desc\" (default: the key)")
	buckets := cmdline.Text(c, "buckets", "N", "of a new table: the number of buckets of the key's first column")
	cmdline.TextVar(c, &call.Like, "like", "TABLE", "for a new table: copy the bucket count and, where the files have the columns, the partitions of this table")
	cmdline.TextsVar(c, &call.Partition, "partition", "FIELD", "of a new table: a column, or a transform of one, as in 'day(ts)' or 'truncate[2](region)', to partition by in front of the buckets; may be repeated")
	cmdline.TextVar(c, &call.Token, "token", "TOKEN", "the name of this change, which is then made once (default: a new one)")
	cmdline.TextVar(c, &call.Branch, "branch", "NAME", "the branch to commit to (default main); a new one begins at main")
	cmdline.TextVar(c, &call.OnlyKeysOf, "only-keys-of", "DATASET|TABLE", "drop rows whose key no training row of a dataset or a table has, and rows with a null in the key")
	c.Flags().BoolVar(&call.Evolve, "evolve", false, "add columns that the table does not have")
	c.Flags().BoolVar(&call.AllowShrink, "allow-shrink", false, "let --mode replace leave less than half as many rows in the partitions that it replaces")
	c.Flags().BoolVar(&call.DryRun, "dry-run", false, "read and sort the rows, and print what would be written")
	c.Flags().BoolVar(&call.asJSON, "json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		call.Table, call.files, call.source = args[0], args[1:], flags.text()
		call.Key, call.Sort = columnNames(*key), columnNames(*sort)
		if err := call.set(*mode, *buckets); err != nil {
			return err
		}
		if uri, err := p.serverOf(flags.sourceFlags); err != nil || uri {
			if err != nil {
				return err
			}
			return p.change(c, flags, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
				return p.stageRemotely(ctx, s, call, g)
			})
		}
		g, err := p.progressOf(*flags.progress, "stage", args[0])
		if err != nil {
			return err
		}
		return g.end(p.withEngine(c.Context(), *flags.config, func(ctx context.Context, e *engine.Engine) error {
			return p.stage(ctx, e, call, g)
		}))
	}
	return c
}

// staging reports how far a stage is.
func (g *commandProgress) staging(at datafile.Progress) {
	g.step(at.Step.String())
	g.at(flight.ProgressCounts{RowsRead: at.RowsRead, RowsWritten: at.RowsWritten, Files: int64(at.Files), Bytes: at.Bytes})
}

// columnNames splits a list that is separated by commas.
func columnNames(text string) []string {
	var out []string
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// stageCall is what to stage, and how to print the result.
type stageCall struct {
	dataset.TableWrite
	files  []string
	source string // the flag of the source
	asJSON bool
}

// set sets the mode and the number of buckets from the texts of their flags.
func (s *stageCall) set(mode, buckets string) error {
	if s.Mode = dataset.WriteMode(mode); mode != "" && !slices.Contains(dataset.WriteModes(), s.Mode) {
		return cmdline.Errorf("--mode %q is neither append nor replace", mode)
	}
	if buckets != "" {
		n, err := strconv.Atoi(buckets)
		if err != nil || n <= 0 {
			return cmdline.Errorf("--buckets %q is not a number above 0", buckets)
		}
		s.Buckets = n
	}
	if s.Buckets > 0 && s.Like != "" {
		return cmdline.Errorf("--buckets and --like both give the number of buckets: give one of them")
	}
	return nil
}

// stage stages files in process and prints the result.
func (p process) stage(ctx context.Context, e *engine.Engine, call stageCall, g *commandProgress) error {
	ctx, entered := e.Budget.Enter(ctx, "stage")
	defer entered.Release()
	rows, err := foreign.Open(ctx, call.files, foreign.Options{Budget: e.Budget, Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return err
	}
	defer rows.Release()
	o := stage.CallOptions{Progress: g.staging}
	if call.OnlyKeysOf != "" {
		g.step("keys")
		o.OnlyKeys = staged.Keys{Datasets: e.Datasets(), Of: call.OnlyKeysOf, Staged: call.Table}.Read
	}
	out, err := e.Stager(1).Stage(ctx, o, call.TableWrite, rows)
	if err != nil {
		return err
	}
	return p.printStaged(call, out)
}

// stageRemotely sends files to a server and prints the result.
func (p process) stageRemotely(ctx context.Context, s *client.Client, call stageCall, g *commandProgress) error {
	rows, err := foreign.Open(ctx, call.files, foreign.Options{Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return err
	}
	defer rows.Release()
	if call.Token == "" { // so that a failure can name it
		call.Token = tablecommit.NewToken(p.clock(), "")
	}
	out, err := s.Stage(ctx, call.TableWrite, rows, g.report)
	if err != nil && (fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil) {
		p.note("  → repeat the command with --token %s: if this one has written the rows, it writes nothing\n", call.Token)
	}
	if err != nil {
		return err
	}
	return p.printStaged(call, out)
}

// printStaged prints the result of a stage.
func (p terminal) printStaged(call stageCall, out stage.WriteResult) error {
	text := stageText(call.TableWrite, out)
	if out.Snapshot != 0 && !out.Existed {
		text += undoText(madeBy(call.TableWrite, out), call.source)
	}
	return p.printResult(call.asJSON, out, text)
}

// stageText describes a result.
func stageText(request dataset.TableWrite, r stage.WriteResult) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case r.Existed:
		line("snapshot %d of table %s has the rows already: nothing was written", r.Snapshot, request.Table)
		line("token %s", r.Token)
		return b.String()
	case request.DryRun:
		line("dry run: nothing was written to table %s", request.Table)
	case r.Snapshot == 0:
		line("there are no rows: nothing was written to table %s", request.Table)
		return b.String()
	default:
		line("snapshot %d of table %s", r.Snapshot, request.Table)
	}
	line("rows %d, in %s", r.Rows, fault.Count(r.Partitions, "partition"))
	if !request.DryRun {
		line("files %d, bytes %d", r.Files, r.Bytes)
	}
	if r.Created {
		line("the table is new")
		line("partitioned by %s", strings.Join(r.Partition, ", "))
	}
	if len(r.Taken) > 0 {
		line("as table %s is: %s", request.Like, strings.Join(r.Taken, ", "))
	}
	if len(r.Added) > 0 {
		line("new columns: %s", strings.Join(r.Added, ", "))
	}
	if r.Removed > 0 {
		line("files replaced: %d, with %s before and %d now", r.Removed, fault.Count(r.RemovedRows, "row"), r.Rows)
	}
	switch {
	case request.OnlyKeysOf != "":
		line("rows dropped, whose key no training row has: %d, of them with a null in the key: %d", r.Dropped, r.NullKeys)
	case r.NullKeys > 0:
		line("rows with a null in the key, which match nothing: %d", r.NullKeys)
	}
	line("token %s", r.Token)
	return b.String()
}

// madeBy returns what a stage did to its branch.
func madeBy(request dataset.TableWrite, r stage.WriteResult) client.Move {
	out := client.Move{Table: request.Table, Branch: request.Branch, From: r.Parent, To: r.Snapshot}
	if r.Branched {
		out.From = 0
	}
	return out
}
