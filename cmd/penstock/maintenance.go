package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/orphans"
)

// compactFlags are the flags of compact.
type compactFlags struct {
	changeFlags
	key, minFiles, fileSize, branch *string
	partition                       *[]string
	anyOrder, dry, asJSON           *bool
}

func compactCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "compact TABLE", Short: "Rewrite files of a staging table that are small or have deletes",
		Long: "Rewrite the files of a staging table that are small, have deletes, have an older partition spec, or\n" +
			"do not declare the table's sort order. Deleted rows are left out; every other row is kept exactly\n" +
			"once. Files are replaced in groups, with one commit for each group. If the command is stopped, run\n" +
			"it again: it continues with the rest.\n\n" +
			"Readers that take the first or the last row of a key find the same row as before: files in which\n" +
			"rows of a key would change their order are counted, but not rewritten, unless each key occurs in\n" +
			"one row. --any-order rewrites these files too.",
		Example: "  penstock compact features.history --config penstock.yaml\n" +
			"  penstock compact features.history --partition ts_day=2026-11-01 --min-files 2 --dry-run --config penstock.yaml",
		Args: oneTable,
	}
	f := compactFlags{
		changeFlags: newChangeFlags(c),
		partition:   cmdline.Texts(c, "partition", "FIELD=VALUE", "rewrite only files of partitions with this value, as in ts_day=2026-11-01; may be repeated"),
		key:         cmdline.Text(c, "key", "COLUMNS", "columns that are equal in all rows of a key, separated by commas (default: the table's bucketed columns)"),
		minFiles:    cmdline.Text(c, "min-files", "N", "rewrite small files only if a partition has at least this many (default 4)"),
		fileSize:    cmdline.Text(c, "file-size", "SIZE", "the size of new files (default 256MiB); files of less than three quarters of it are small"),
		branch:      cmdline.Text(c, "branch", "BRANCH", "the branch whose files are rewritten (default main)"),
		anyOrder:    c.Flags().Bool("any-order", false, "also rewrite files in which rows of a key change their order; refused if a dataset takes the first or last row of a key"),
		dry:         c.Flags().Bool("dry-run", false, "print what would be rewritten"),
		asJSON:      c.Flags().Bool("json", false, "print the result as JSON"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		request, err := f.request(args[0])
		if err != nil {
			return err
		}
		return p.change(c, f.changeFlags, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			var out maintenance.CompactionResult
			if err := s.Change(ctx, "compact", request, &out, g.report); err != nil {
				return err
			}
			return p.printResult(*f.asJSON, out, compactText(request, out))
		})
	}
	return c
}

// oneTable returns an error unless a command has exactly one argument.
func oneTable(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cmdline.Errorf("%s needs a table", c.CommandPath())
	}
	return nil
}

// request returns the request that the flags describe.
func (f compactFlags) request(table string) (decode.CompactCommand, error) {
	out := decode.CompactCommand{Table: table, Branch: *f.branch, Partition: *f.partition, Key: cmdline.Items(*f.key), AnyOrder: *f.anyOrder, DryRun: *f.dry, Progress: true}
	if *f.minFiles != "" {
		n, err := strconv.Atoi(*f.minFiles)
		if err != nil || n < 2 { //nolint:mnd // rewriting a single file does not reduce the number of files
			return out, cmdline.Errorf("--min-files %q is not a number above 1", *f.minFiles)
		}
		out.MinFiles = n
	}
	if *f.fileSize != "" {
		n, err := fault.ParseSize(*f.fileSize)
		if err != nil || n < 1<<20 {
			return out, cmdline.Errorf("--file-size %q is not a size of at least 1MiB, such as 256MiB", *f.fileSize)
		}
		out.FileSize = n
	}
	return out, nil
}

// compactText describes a result.
func compactText(request decode.CompactCommand, r maintenance.CompactionResult) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case r.Files == 0 && r.Kept > 0:
		line("no file of table %s can be rewritten", request.Table)
	case r.Files == 0:
		line("no file of table %s needs to be rewritten", request.Table)
	case request.DryRun:
		line("dry run: nothing was written to table %s", request.Table)
		line("to rewrite: files %d, %s, rows %d", r.Files, fault.Size(r.Bytes), r.Rows)
		line("new files: about %d", r.FilesWritten)
	default:
		line("snapshot %d of table %s, after %s", r.Snapshot, request.Table, fault.Count(r.Commits, "commit"))
		line("rewritten: files %d, %s, rows %d", r.Files, fault.Size(r.Bytes), r.Rows)
		line("new: files %d, %s", r.FilesWritten, fault.Size(r.BytesWritten))
		line("deleted rows left out: %d", r.Deleted)
	}
	if r.Kept > 0 {
		line("files not rewritten, because rows of a key would change their order: %d", r.Kept)
		line("(--key names columns that are equal in all rows of a key; --any-order rewrites these files too)")
	}
	return b.String()
}

// restoreFlags are the flags of restore.
type restoreFlags struct {
	changeFlags
	snapshot, token, branch *string
	partition               *[]string
	duplicates, dry, asJSON *bool
	noCheck                 *bool
}

func restoreCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "restore TABLE", Short: "Restore a staging table, or some of its partitions, as they were at a snapshot",
		Long: "Restore the rows that a staging table, or some of its partitions, had at a snapshot, as one commit. The files\n" +
			"of that snapshot are copied under new names, without the rows that were already deleted, since the old files\n" +
			"are deleted when snapshots expire. Everything committed to the partitions after the snapshot is replaced.\n\n" +
			"A call that is repeated with the same --token writes nothing, and prints the snapshot that has the rows.",
		Example: "  penstock restore features.history --snapshot 4813720985327 --partition ts_day=2026-11-01 --config penstock.yaml\n" +
			"  penstock restore features.history --snapshot 4813720985327 --dry-run --config penstock.yaml",
		Args: oneTable,
	}
	f := restoreFlags{
		changeFlags: newChangeFlags(c),
		snapshot:    cmdline.Text(c, "snapshot", "ID", "the snapshot whose rows are restored"),
		partition:   cmdline.Texts(c, "partition", "FIELD=VALUE", "restore only partitions with this value, as in ts_day=2026-11-01; may be repeated"),
		token:       cmdline.Text(c, "token", "TOKEN", "the name of this change, which is then made once (default: a new one)"),
		branch:      cmdline.Text(c, "branch", "BRANCH", "the branch to commit to (default main)"),
		duplicates:  c.Flags().Bool("allow-duplicates", false, "restore partitions even if rows of them or of other partitions have the same key"),
		dry:         c.Flags().Bool("dry-run", false, "print what would be restored"),
		noCheck:     noCheckFlag(c),
		asJSON:      c.Flags().Bool("json", false, "print the result as JSON"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(*f.snapshot, 10, 64)
		if err != nil || id <= 0 {
			return cmdline.Errorf("--snapshot %q is not the id of a snapshot", *f.snapshot)
		}
		request := decode.RestoreCommand{
			Table: args[0], Branch: *f.branch, Token: *f.token, Snapshot: id, Partition: *f.partition, AllowDuplicates: *f.duplicates, DryRun: *f.dry, NoCheck: *f.noCheck, Progress: true,
		}
		return p.change(c, f.changeFlags, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			var out changes.Restored
			if err := s.Change(ctx, "restore", request, &out, g.report); err != nil {
				return err
			}
			move := client.Move{Table: request.Table, Branch: request.Branch, From: out.Parent, To: out.Snapshot}
			text := restoreText(request, out.RestorationResult) + readersText(out.Readers, unreadText(s.InProcess(), request.Table))
			if out.Snapshot != 0 && !out.Existed {
				text += undoText(move, f.text())
			}
			made := fmt.Sprintf("the rows are restored in snapshot %d of table %s", out.Snapshot, request.Table)
			return errors.Join(p.printResult(*f.asJSON, out, text), brokenReaders(out.Readers, made, "it back: "+undoLine(move)+f.text()))
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

func orphansCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "orphans TABLE…", Short: "List, or remove, files of failed writes that no snapshot names",
		Long: "List the files in the folders of tables that Penstock wrote and that the tables' metadata does not\n" +
			"name: files of failed stages and commits, and unfinished uploads. --remove removes them. Files of\n" +
			"other writers are neither listed nor removed.\n\n" +
			"A file is written before a snapshot names it, so --older-than must be longer than the longest\n" +
			"write. If the outcome of a failed stage is uncertain, repeat the stage first.",
		Example: "  penstock orphans features.history --config penstock.yaml\n" +
			"  penstock orphans features.history features.embedding --older-than 7d --remove --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmdline.Errorf("%s needs a table", c.CommandPath())
			}
			for i, table := range args {
				if slices.Contains(args[:i], table) {
					return cmdline.Errorf("table %s is given twice", table)
				}
			}
			return nil
		},
	}
	from := newChangeFlags(c)
	older := cmdline.Text(c, "older-than", "AGE", "leave out what was written later, such as 12h or 7d (default 3d, at least 1h)")
	remove := c.Flags().Bool("remove", false, "remove what is listed")
	asJSON := c.Flags().Bool("json", false, "print the orphan files as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		age, err := decode.ParseOrphanAge(*older)
		if err != nil {
			return cmdline.Errorf("--older-than %s", fault.As(err).Message)
		}
		request := decode.OrphansCommand{Tables: args, OlderThan: age, Remove: *remove, Progress: true}
		return p.change(c, from, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			var found orphans.Paged
			err := s.Change(ctx, "orphans", request, &found, g.report)
			if err != nil && found == nil {
				return err
			}
			return cmp.Or(err, p.printOrphans(found, request, *asJSON))
		})
	}
	return c
}

// printOrphans prints the orphan files of tables, or how many were removed.
func (p process) printOrphans(found []orphans.TableOrphans, request decode.OrphansCommand, asJSON bool) error {
	if asJSON {
		return p.printJSON(found)
	}
	for _, f := range found {
		for _, folder := range f.NotSearched {
			p.note("table %s: %s is not searched: it is outside of the table's folder, and other tables may write there\n", f.Table, folder)
		}
		if err := p.printTableOrphans(f, request.Remove); err != nil {
			return err
		}
		if f.TooYoung == 0 {
			continue
		}
		text := fmt.Sprintf("table %s: %s that no snapshot names, and too young to judge: a write that runs may need what is younger than %s\n",
			f.Table, fault.Count(f.TooYoung, "file"), ageText(time.Duration(request.OlderThan)))
		if _, err := io.WriteString(p.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// printTableOrphans prints the orphan files of a table, or how many were removed.
func (p process) printTableOrphans(f orphans.TableOrphans, removed bool) error {
	if removed {
		bytes := int64(0)
		for _, e := range f.Files[:f.Removed] {
			bytes += e.Size()
		}
		_, err := fmt.Fprintf(p.stdout, "table %s: removed %s, %s\n", f.Table, fault.Count(f.Removed, "orphan file"), fault.Size(bytes))
		return err
	}
	for _, e := range f.Files {
		what, size := e.Location, "size unknown"
		if e.Upload != "" {
			what = "unfinished upload of " + what
		}
		if e.Bytes != nil {
			size = fault.Size(*e.Bytes)
		}
		if _, err := fmt.Fprintf(p.stdout, "%s, %s, %s old\n", what, size, ageText(p.clock().Sub(e.Modified))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.stdout, "table %s: %s, %s\n", f.Table, fault.Count(len(f.Files), "orphan file"), fault.Size(f.Bytes))
	return err
}

// ageText returns a duration in days and hours.
func ageText(age time.Duration) string {
	const day = 24 * time.Hour
	return fmt.Sprintf("%dd%dh", age/day, age%day/time.Hour)
}
