package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/fault"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
)

func publishCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "publish TABLE BRANCH", Short: "Move main of a table to the snapshot of a branch",
		Long: "Move main of a table to the snapshot of a branch, if the branch contains all snapshots of main. The output has\n" +
			"the command that reverts the move. main is not moved if the rows of the branch break limits of a dataset of\n" +
			"the config file that reads the table, or if fewer sampled rows match than its min_match. To check the rows\n" +
			"first, run penstock verify for a dataset whose staging entry has ref: BRANCH.\n\n" +
			"With --from and --to, main is moved only from the snapshot --from, and only if the branch is at the snapshot\n" +
			"--to. --dry-run prints this command. It can be repeated: if main is at --to, nothing is moved.",
		Example: "  penstock publish features.history candidate --config penstock.yaml\n" +
			"  penstock publish features.history candidate --from 3051729675574597004 --to 8744736658442914487 --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 { //nolint:mnd // a table and a branch
				return cmdline.Errorf("%s needs a table and a branch", c.CommandPath())
			}
			return nil
		},
	}
	source := newChangeFlags(c)
	from := cmdline.Text(c, "from", "SNAPSHOT|none", "the snapshot that main must be at, or none")
	to := cmdline.Text(c, "to", "SNAPSHOT", "the snapshot that the branch must be at")
	dry := c.Flags().Bool("dry-run", false, "move nothing: print the move, and the limits that would be checked")
	noCheck := c.Flags().Bool("no-check", false, "do not check the limits of the datasets that read the table")
	asJSON := c.Flags().Bool("json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		seen, err := movedSnapshots(args[0], args[1], *from, *to)
		if err != nil {
			return err
		}
		seen.NoCheck = *noCheck
		return p.change(c, source, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			g.step("move")
			if *dry {
				move, err := s.WouldPublish(ctx, seen)
				if err != nil {
					return err
				}
				return p.printResult(*asJSON, move, wouldPublishText(move, *noCheck, source.text()))
			}
			move, err := s.Publish(ctx, seen)
			if err != nil {
				return err
			}
			return p.printResult(*asJSON, move, publishText(args[0], args[1], move, source.text())+limitsText(move.Limits))
		})
	}
	return c
}

// wouldPublishText describes the result of a dry run.
func wouldPublishText(move client.Move, noCheck bool, source string) string {
	var b strings.Builder
	if move.From == move.To {
		fmt.Fprintf(&b, "dry run: main of table %s is at snapshot %d of branch %s already\n", move.Table, move.To, move.Branch)
		return b.String()
	}
	from := noneBefore
	if move.From == 0 {
		fmt.Fprintf(&b, "dry run: main of table %s, which has no snapshot, would move to snapshot %d of branch %s\n", move.Table, move.To, move.Branch)
	} else {
		from = strconv.FormatInt(move.From, 10)
		fmt.Fprintf(&b, "dry run: main of table %s would move from snapshot %d to snapshot %d of branch %s\n", move.Table, move.From, move.To, move.Branch)
	}
	for _, c := range move.Limits {
		fmt.Fprintf(&b, "dataset %s, entry %s: limits of %s would be checked\n", c.Dataset, c.Entry, fault.Count(len(c.Columns), "column"))
	}
	words := []string{"penstock", "publish", move.Table, move.Branch, "--from", from, "--to", strconv.FormatInt(move.To, 10)}
	if noCheck {
		words = append(words, "--no-check")
	}
	fmt.Fprintf(&b, "to publish these snapshots: %s%s\n", cmdline.Join(words...), source)
	return b.String()
}

// publishText describes a move of main.
func publishText(table, branch string, move client.Move, source string) string {
	switch move.From {
	case move.To:
		return fmt.Sprintf("main of table %s is at snapshot %d of branch %s already\n", table, move.To, branch)
	case 0:
		return fmt.Sprintf("main of table %s, which had no snapshot, is at snapshot %d of branch %s\n", table, move.To, branch)
	}
	return fmt.Sprintf("main of table %s moved from snapshot %d to snapshot %d of branch %s\n", table, move.From, move.To, branch) +
		undoText(client.Move{Table: table, From: move.From, To: move.To}, source)
}

// limitsText says which limits of values were checked.
func limitsText(checked []changes.CheckedLimits) string {
	var b strings.Builder
	for _, c := range checked {
		fmt.Fprintf(&b, "dataset %s, entry %s: limits of %s are kept", c.Dataset, c.Entry, fault.Count(len(c.Columns), "column"))
		if c.Partitions > 0 {
			fmt.Fprintf(&b, ", in all rows and by %s in %s", c.Partition, fault.Count(c.Partitions, "partition"))
		}
		if c.Base != 0 {
			fmt.Fprintf(&b, ", compared with snapshot %d of main", c.Base)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// undoText returns a line with the command that undoes a move of a branch. source is the result of
// sourceFlags.text.
func undoText(move client.Move, source string) string {
	return "to take it back: " + undoLine(move) + source + "\n"
}

// undoLine returns the command that undoes a move of a branch, without the source flag. If main had
// no snapshot before the move, the command has --yes, without which undo refuses to drop a table
// that the undone changes created. Other tables stay.
func undoLine(move client.Move) string {
	from := noneBefore
	if move.From != 0 {
		from = strconv.FormatInt(move.From, 10)
	}
	words := []string{"penstock", "undo", move.Table}
	if move.Branch != "" && move.Branch != tablecommit.Main {
		words = append(words, "--branch", move.Branch)
	}
	words = append(words, "--from", from, "--to", strconv.FormatInt(move.To, 10))
	if from == noneBefore && cmp.Or(move.Branch, tablecommit.Main) == tablecommit.Main {
		words = append(words, "--yes")
	}
	return cmdline.Join(words...)
}

// noneBefore is the value of undo's --from if the branch did not exist before, or if main had no
// snapshot.
const noneBefore = "none"

func undoCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "undo TABLE", Short: "Revert the last change of a table",
		Long: "Revert the last change that Penstock made to main of a table: a stage, a publish, a compaction or a\n" +
			"restoration. The command prints the change; with --dry-run, it only prints the change and the command that\n" +
			"reverts it. If others have committed since, nothing is moved, and the error lists their snapshots. The command\n" +
			"may be repeated: if the last change was already reverted, nothing is moved. To revert a promotion, use demote.\n\n" +
			"With --to and --from, the branch is moved back from the snapshot --to to the earlier snapshot --from. With\n" +
			"--from none, the branch is removed; main stays, without a snapshot. A branch other than main needs both flags.\n" +
			"penstock log lists the snapshots, and prints the command for each change.\n\n" +
			"If the change created the table, and no other program has committed to it, the command drops the table, so\n" +
			"that it can be created with another layout. This needs --yes. Otherwise, the table stays, without rows.\n" +
			"No data file is removed.",
		Example: "  penstock undo features.history --config penstock.yaml\n" +
			"  penstock undo features.history --from 3051729675574597004 --to 8744736658442914487 --config penstock.yaml\n" +
			"  penstock undo features.history --branch candidate --from none --to 8744736658442914487 --config penstock.yaml",
		Args: oneTable,
	}
	source := newChangeFlags(c)
	branch := cmdline.Text(c, "branch", "BRANCH", "the branch (default main)")
	from := cmdline.Text(c, "from", "SNAPSHOT|none", "the snapshot to move back to, or none")
	to := cmdline.Text(c, "to", "SNAPSHOT", "the snapshot to move back from")
	dry := c.Flags().Bool("dry-run", false, "print which change would be taken back; without --from and --to")
	yes := c.Flags().Bool("yes", false, "drop the table if the change created it")
	noCheck := noCheckFlag(c)
	asJSON := c.Flags().Bool("json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		made, err := movedSnapshots(args[0], *branch, *from, *to)
		if err != nil {
			return err
		}
		if *dry && made.To != 0 {
			return cmdline.Errorf("--dry-run is for the last change: leave out --from and --to")
		}
		return p.change(c, source, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			g.step("move")
			var back client.Move
			var err error
			made.NoCheck = *noCheck
			if made.Drop = *yes; made.To == 0 {
				back, err = undoLast(ctx, s, made, *dry, source.text())
			} else {
				back, err = s.Undo(ctx, made)
			}
			if err != nil {
				return err
			}
			text := undoneText(back, *dry)
			if *dry {
				text += undoText(reversed(back), source.text())
			}
			text += readersText(back.Readers, unreadText(s.InProcess(), back.Table))
			return errors.Join(p.printResult(*asJSON, back, text), brokenReaders(back.Readers, "the change of table "+back.Table+" is undone", ""))
		})
	}
	return c
}

// undoLast undoes Penstock's last change to a branch; the move of names the table and the branch.
// undoLast first looks up the snapshots before and after this change, and sends them with the
// request. So a request that is sent twice does not undo another change.
//
// Table metadata records only the moves of main. If another branch was moved back, a second call
// could not see this, and would undo one more change. For such a branch, undoLast therefore undoes
// nothing: it returns an error with the command that names the snapshots. source is the result of
// sourceFlags.text.
func undoLast(ctx context.Context, s *client.Client, of client.Move, dry bool, source string) (client.Move, error) {
	last, err := s.LastChange(ctx, of.Table, of.Branch)
	if err != nil || dry {
		return last, err
	}
	if last.Branch != "" {
		return last, fault.New(fault.Conflict, "the last change of branch %s of table %s is snapshot %d; table metadata does not record that a branch other than main was moved back, so undo needs the snapshots of the change",
			last.Branch, of.Table, last.From).WithRemedy("to take this change back: %s%s", undoLine(reversed(last)), source)
	}
	move := reversed(last)
	move.Drop, move.NoCheck = of.Drop, of.NoCheck
	back, err := s.Undo(ctx, move)
	back.Undone = last.Undone
	return back, err
}

// reversed returns the move in the opposite direction.
func reversed(m client.Move) client.Move {
	return client.Move{Table: m.Table, Branch: m.Branch, From: m.To, To: m.From}
}

// movedSnapshots returns the move that the flags --from and --to of undo and publish describe. Without these flags, the To of the returned
// move is 0: undo then applies to the last change, and publish to the snapshots at which main and the branch are.
func movedSnapshots(table, branch, from, to string) (client.Move, error) {
	made := client.Move{Table: table, Branch: branch}
	if from == "" && to == "" {
		return made, nil
	}
	var err error
	if from != noneBefore {
		made.From, err = snapshotFlag("from", from)
	}
	if err == nil {
		made.To, err = snapshotFlag("to", to)
	}
	return made, err
}

// undoneText describes the changes that the move back has undone or, in a dry run, would undo.
func undoneText(back client.Move, dry bool) string {
	var b strings.Builder
	did := "took back"
	if dry {
		did = "dry run: would take back"
	}
	for _, e := range back.Undone {
		fmt.Fprintf(&b, "%s snapshot %d of %s, by %s: %s\n", did, e.Snapshot, e.Time.Format(time.RFC3339), e.Writer, changesText(e))
	}
	again := "again"
	if dry {
		again = "again then"
	}
	branch := cmp.Or(back.Branch, tablecommit.Main)
	switch {
	case back.Dropped && dry:
		fmt.Fprintf(&b, "table %s is dropped then, which needs --yes\n", back.Table)
	case back.Dropped:
		fmt.Fprintf(&b, "table %s is dropped; its files stay in %s until you delete them; if the table is created again, penstock orphans finds them\n", back.Table, back.Folder)
	case back.To != 0:
		fmt.Fprintf(&b, "%s of table %s is at snapshot %d %s\n", branch, back.Table, back.To, again)
	case branch == tablecommit.Main:
		fmt.Fprintf(&b, "%s of table %s has no snapshot %s: the table is empty\n", branch, back.Table, again)
	default:
		fmt.Fprintf(&b, "branch %s of table %s is removed\n", branch, back.Table)
	}
	return b.String()
}

// snapshotFlag parses the id of a snapshot.
func snapshotFlag(name, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, cmdline.Errorf("--%s needs the id of a snapshot, as publish, stage and log print it", name)
	}
	return id, nil
}
