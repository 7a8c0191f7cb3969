package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/backfill"
	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/promote"
)

func promoteCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "promote DATASET ENTRY…", Short: "Make the columns of staging entries columns of the training table",
		Long: "Make the columns of left and overlay entries of a dataset columns of its training table: each data\n" +
			"file of main is replaced by a file that also has the new columns; the other columns are copied\n" +
			"unchanged. Readers see no change until the last commit, which changes the table's schema. The\n" +
			"table's catalog must allow writes to its namespace (docs/changes.md).\n\n" +
			"To continue after an interruption, repeat the command. For entries that are already promoted, it\n" +
			"writes only the files that lack the columns, such as files that were appended without them.\n" +
			"--dry-run estimates the cost.",
		Example: "  penstock promote homefeed history --dry-run --config penstock.yaml\n" +
			"  penstock promote homefeed history embedding --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 { //nolint:mnd // a dataset and an entry
				return cmdline.Errorf("%s needs a dataset and at least one of its staging entries", c.CommandPath())
			}
			return nil
		},
	}
	from := newChangeFlags(c)
	dry := c.Flags().Bool("dry-run", false, "write nothing, and estimate bytes, time, and after how many epochs it pays")
	resume := c.Flags().Bool("continue", false, "continue an earlier call, with the values of its snapshots, though staging tables have later ones")
	restart := c.Flags().Bool("restart", false, "begin again with the current snapshots, though an earlier call is unfinished")
	noCheck := noCheckFlag(c)
	asJSON := c.Flags().Bool("json", false, "print the result as JSON")
	printed := sparkPrintFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if asSQL, err := printed.wanted(); asSQL || err != nil {
			if err != nil {
				return err
			}
			if *from.uri != "" {
				return cmdline.Errorf("--print spark needs --config: it names tables as the config file does")
			}
			return p.printPromotion(c.Context(), *from.config, args, printed)
		}
		request := decode.PromoteCommand{Dataset: args[0], Entries: args[1:], DryRun: *dry, NoCheck: *noCheck, Progress: true}
		switch {
		case *resume && *restart:
			return cmdline.Errorf("--continue resumes and --restart begins again: give one of them")
		case *resume:
			request.Earlier = decode.ContinuePromotion
		case *restart:
			request.Earlier = decode.RestartPromotion
		}
		return p.change(c, from, "", func(ctx context.Context, s *client.Client, g *commandProgress) error {
			var out changes.Promoted
			if err := s.Change(ctx, "promote", request, &out, g.report); err != nil {
				return err
			}
			return p.printPromoted(request, out, s.InProcess(), *asJSON, from.text())
		})
	}
	return c
}

// promotionText describes a result.
func promotionText(request decode.PromoteCommand, r promote.PromotionResult) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case r.Existed && r.Files == 0:
		line("table %s has the columns of promotion %s already: nothing was written", r.Table, r.Promotion)
	case r.Existed:
		line("table %s has the columns of promotion %s already, but %s", r.Table, r.Promotion, fault.Count(r.Files, "file")+" lacked them")
	}
	for _, c := range r.Columns {
		text := fmt.Sprintf("column %s of entry %s, field id %d", c.Name, c.Entry, c.ID)
		if c.Old != "" {
			text += ", in place of a column that is named " + c.Old + " then"
		}
		line("%s", text)
	}
	if e := r.Estimate; e != nil {
		line("dry run: nothing was written to table %s", r.Table)
		line("files to replace: %d, with %s; %d have the columns already", r.Files, fault.Count(r.Rows, "row"), r.Skipped)
		line("reads %s and writes about %s, in about %.1f s", fault.Size(r.BytesCopied), fault.Size(r.BytesWritten), e.Seconds)
		line("per epoch: %s of staging tables now, about %s of the new columns then", fault.Size(e.StagingBytes), fault.Size(e.ColumnBytes))
		if e.Epochs > 0 {
			line("pays after %s", fault.Count(e.Epochs, "epoch"))
		} else {
			line("saves no reading: the new columns are no smaller than the staging tables")
		}
		return b.String()
	}
	if !r.Existed || r.Files > 0 {
		line("files replaced: %d, with %s, in %s; %d had the columns already", r.Files, fault.Count(r.Rows, "row"), fault.Count(r.Commits, "commit"), r.Skipped)
		line("rows read again and compared with the join: %d", r.Compared)
	}
	if !r.Existed {
		line("schema %d of table %s is current, after schema %d", r.Schema, r.Table, r.Before)
	}
	line("dataset %s reads these columns from the training table now; keep the entries %s, unchanged, for as long as jobs resume from earlier checkpoints",
		request.Dataset, strings.Join(request.Entries, ", "))
	return b.String()
}

// printPromoted prints a result, with the command that takes the promotion back. local says that the
// command changed the table in process. source is the result of sourceFlags.text. The error is a brokenError if a dataset can no longer be read.
func (p terminal) printPromoted(request decode.PromoteCommand, r changes.Promoted, local, asJSON bool, source string) error {
	back := ""
	text := promotionText(request, r.PromotionResult) + readersText(r.Readers, unreadText(local, r.Table))
	if !request.DryRun {
		command := []string{"penstock", "demote", r.Table, r.Columns[0].Name}
		if request.NoCheck {
			command = append(command, "--no-check") // a dataset that the promotion changed would be changed again
		}
		back = cmdline.Join(command...) + source
		text += "to take it back: " + back + "\n"
	}
	return errors.Join(p.printResult(asJSON, r, text), brokenReaders(r.Readers, "the columns are in table "+r.Table, "it back: "+back))
}

// noCheckFlag adds --no-check to a command that changes the main branch of a table.
func noCheckFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("no-check", false, "do not check the datasets that read the table")
}

// unreadText returns the line about a table that no dataset reads. local says that the command ran in process, where it may
// read all datasets.
func unreadText(local bool, table string) string {
	if local {
		return "no dataset reads table " + table
	}
	return "no dataset that this client may read reads table " + table
}

func demoteCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "demote TABLE COLUMN…", Short: "Remove promoted columns from a training table",
		Long: "Remove promoted columns from the schema of a training table, with all columns of the same promotion.\n" +
			"Columns that they replaced get their names back. No data file is written, and no row is lost; repeating\n" +
			"the promotion changes only the schema.\n\n" +
			"The command first lists the columns and their staging entries, and prompts for confirmation.",
		Example: "  penstock demote ml.impressions last_pins --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 { //nolint:mnd // a table and a column
				return cmdline.Errorf("%s needs a table and at least one of its promoted columns", c.CommandPath())
			}
			return nil
		},
	}
	from := newChangeFlags(c)
	yes := c.Flags().Bool("yes", false, "do not prompt for confirmation")
	dry := c.Flags().Bool("dry-run", false, "list the columns that would be removed, and change nothing")
	noCheck := noCheckFlag(c)
	asJSON := c.Flags().Bool("json", false, "print the result as JSON; it needs --yes or --dry-run")
	c.RunE = func(c *cobra.Command, args []string) error {
		request := decode.DemoteCommand{Table: args[0], Columns: args[1:], DryRun: *dry, NoCheck: *noCheck, Progress: true}
		asks := !*yes && !*dry
		if asks && (*asJSON || !p.answers) {
			return cmdline.Errorf("%s prompts for confirmation, which needs a terminal: add --yes, or --dry-run to see what it removes", c.CommandPath())
		}
		return p.change(c, from, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			var out changes.Demoted
			if asks {
				resume := g.pause()
				some, err := p.askDemotion(ctx, s, request)
				resume()
				if err != nil || !some {
					return err
				}
			}
			if err := s.Change(ctx, "demote", request, &out, g.report); err != nil {
				return err
			}
			text := demotionText(request, out.Demotion) + readersText(out.Readers, unreadText(s.InProcess(), out.Table))
			return errors.Join(p.printResult(*asJSON, out, text), brokenReaders(out.Readers, "the columns are dropped from table "+out.Table, ""))
		})
	}
	return c
}

// askDemotion lists the columns that a call would drop, and asks whether to drop them. If there are
// no such columns, it returns false. It returns errDeclined if the answer is not yes.
func (p process) askDemotion(ctx context.Context, s *client.Client, request decode.DemoteCommand) (bool, error) {
	request.DryRun, request.Progress = true, false
	var out promote.Demotion
	if err := s.Change(ctx, "demote", request, &out, nil); err != nil {
		return false, err
	}
	text := demotionText(request, out)
	if len(out.Dropped) > 0 {
		text += "Go on? [y/N] "
	}
	if _, err := io.WriteString(p.stdout, text); err != nil || len(out.Dropped) == 0 {
		return false, err
	}
	answer, _ := bufio.NewReader(p.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return false, errDeclined
	}
	return true, nil
}

// errDeclined is the error of a command whose question was not answered with yes.
var errDeclined = errors.New("nothing was changed")

// demotionText describes a result.
func demotionText(request decode.DemoteCommand, r promote.Demotion) string {
	if len(r.Dropped) == 0 {
		return fmt.Sprintf("table %s has no promoted columns %s: nothing was changed\n", r.Table, strings.Join(request.Columns, ", "))
	}
	columns, more := strings.Join(r.Dropped, ", "), ""
	if len(r.Restored) > 0 {
		more = "columns with their names again: " + strings.Join(r.Restored, ", ") + "\n"
	}
	more += losingText(r.Losing)
	if request.DryRun {
		return fmt.Sprintf("to drop from table %s: columns %s\nof entries: %s\n%s", r.Table, columns, strings.Join(r.Entries, ", "), more)
	}
	return fmt.Sprintf("table %s has no columns %s any more\nof entries: %s\n%sschema %d is current, after schema %d\n",
		r.Table, columns, strings.Join(r.Entries, ", "), more, r.Schema, r.Before)
}

// losingText names the datasets that lose columns.
func losingText(losing map[string][]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(losing)) {
		fmt.Fprintf(&b, "dataset %s loses columns, whose entries it lacks: %s\n", name, strings.Join(losing[name], ", "))
	}
	return b.String()
}

// sparkPrint holds the flags with which a command prints a promotion as Spark SQL.
type sparkPrint struct{ as, catalog *string }

// printSpark is the value of --print.
const printSpark = "spark"

// sparkPrintFlags adds the flags of a sparkPrint to a command.
func sparkPrintFlags(c *cobra.Command) sparkPrint {
	return sparkPrint{
		as:      cmdline.Text(c, "print", "spark", "spark: print Spark SQL that does the same, and change nothing"),
		catalog: cmdline.Text(c, "spark-catalog", "NAME", "with --print: the name of the catalog in Spark (default: names are as in the config file)"),
	}
}

// wanted reports whether the flags ask for SQL.
func (s sparkPrint) wanted() (bool, error) {
	switch {
	case *s.as == printSpark:
		return true, nil
	case *s.as != "":
		return false, cmdline.Errorf("--print %s: want spark", *s.as)
	case *s.catalog != "":
		return false, cmdline.Errorf("--spark-catalog needs --print spark")
	}
	return false, nil
}

// printPromotion prints the promotion of entries of a dataset as Spark SQL.
func (p process) printPromotion(ctx context.Context, flag string, args []string, s sparkPrint) error {
	return p.withConfig(ctx, flag, nil, func(ctx context.Context, c *config.Config, e *engine.Engine) error {
		target, err := backfillTarget(ctx, c, e.Tables.Untagged, args[0])
		if err != nil {
			return err
		}
		target.SQLName = func(table string) string { return sparkName(c, table, *s.catalog) }
		text, err := backfill.Promote(target, args[1:])
		if err != nil {
			return err
		}
		_, err = io.WriteString(p.stdout, text)
		return err
	})
}
