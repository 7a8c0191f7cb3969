package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
)

func publishCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "publish TABLE BRANCH", Short: "Move main of a table to the snapshot of a branch",
		Long: "Move main of a table to the snapshot of a branch, if main has no snapshot that the branch does not\n" +
			"have. The result has the command that takes the move back. To check the rows before, read the\n" +
			"branch: penstock verify with a dataset whose staging entry has ref: BRANCH.",
		Example: "  penstock publish features.history candidate --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 { //nolint:mnd // a table and a branch
				return cmdline.Errorf("%s needs a table and a branch", c.CommandPath())
			}
			return nil
		},
	}
	from := newChangeFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.change(c, from, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			g.step("move")
			move, err := s.Publish(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(p.stdout, publishText(args[0], args[1], move, from.text()))
			return err
		})
	}
	return c
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

// undoText has the command that takes a move of a branch of a table back. Source has the flag of the server of the command that made it.
func undoText(move client.Move, source string) string {
	from := noneBefore
	if move.From != 0 {
		from = strconv.FormatInt(move.From, 10)
	}
	branch := ""
	if move.Branch != "" && move.Branch != tablecommit.Main {
		branch = " --branch " + move.Branch
	}
	return fmt.Sprintf("to take it back: penstock undo %s%s --from %s --to %d%s\n", move.Table, branch, from, move.To, source)
}

// noneBefore is the value of undo's --from for a branch that did not exist, or main of a table without snapshots.
const noneBefore = "none"

func undoCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "undo TABLE", Short: "Take the last publish or stage of a table back",
		Long: "Move a branch of a table back from the snapshot --to, which a publish or a stage made, to the snapshot\n" +
			"--from, which was there before. With --from none, main has no snapshot afterwards and the table is\n" +
			"empty, as before its first stage; another branch is removed. If others committed since, or --to does\n" +
			"not come from --from, nothing is moved, and the error names the snapshots. No file is removed.",
		Example: "  penstock undo features.history --from 3051729675574597004 --to 8744736658442914487 --config penstock.yaml\n" +
			"  penstock undo features.history --branch candidate --from none --to 8744736658442914487 --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cmdline.Errorf("%s needs a table", c.CommandPath())
			}
			return nil
		},
	}
	source := newChangeFlags(c)
	branch := cmdline.Text(c, "branch", "NAME", "the branch (default main)")
	from := cmdline.Text(c, "from", "SNAPSHOT|none", "the snapshot to move back to, or none")
	to := cmdline.Text(c, "to", "SNAPSHOT", "the snapshot to move back from")
	c.RunE = func(c *cobra.Command, args []string) error {
		made := client.Move{Table: args[0], Branch: *branch}
		var err error
		if *from != noneBefore {
			made.From, err = snapshotFlag("from", *from)
		}
		if err == nil {
			made.To, err = snapshotFlag("to", *to)
		}
		if err != nil {
			return err
		}
		return p.change(c, source, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			g.step("move")
			if err := s.Undo(ctx, made); err != nil {
				return err
			}
			_, err := fmt.Fprint(p.stdout, undoneText(made))
			return err
		})
	}
	return c
}

// undoneText describes a move that was taken back.
func undoneText(made client.Move) string {
	branch := cmp.Or(made.Branch, tablecommit.Main)
	switch {
	case made.From != 0:
		return fmt.Sprintf("%s of table %s is at snapshot %d again\n", branch, made.Table, made.From)
	case branch == tablecommit.Main:
		return fmt.Sprintf("%s of table %s has no snapshot again: the table is empty\n", branch, made.Table)
	}
	return fmt.Sprintf("branch %s of table %s is removed\n", branch, made.Table)
}

// snapshotFlag parses the id of a snapshot.
func snapshotFlag(name, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, cmdline.Errorf("--%s needs the id of a snapshot, as publish and stage print it", name)
	}
	return id, nil
}
