package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
)

func (p process) publishCommand() *cobra.Command {
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
	config, progress := configFlag(c), progressFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		g, err := p.progressOf(*progress, "publish", args[0])
		if err != nil {
			return err
		}
		return g.end(p.withEngine(c.Context(), *config, func(ctx context.Context, e *engine) error {
			tables, name, err := e.writes(args[0])
			if err != nil {
				return err
			}
			g.step("move")
			move, err := tables.Publish(ctx, name, args[1])
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(p.stdout, publishText(args[0], args[1], move, *config))
			return err
		}))
	}
	return c
}

// publishText describes a move of main.
func publishText(table, branch string, move tablecommit.Move, config string) string {
	switch move.From {
	case move.To:
		return fmt.Sprintf("main of table %s is at snapshot %d of branch %s already\n", table, move.To, branch)
	case 0:
		return fmt.Sprintf("main of table %s, which had no snapshot, is at snapshot %d of branch %s\n", table, move.To, branch)
	}
	return fmt.Sprintf("main of table %s moved from snapshot %d to snapshot %d of branch %s\n", table, move.From, move.To, branch) +
		undoText(table, move, config)
}

// undoText has the command that takes a move of a branch of a table back. Config is the flag of the command that made it.
func undoText(table string, move tablecommit.Move, config string) string {
	from := noneBefore
	if move.From != 0 {
		from = strconv.FormatInt(move.From, 10)
	}
	branch := ""
	if move.Ref != tablecommit.Main {
		branch = " --branch " + move.Ref
	}
	if config != "" {
		config = " --config " + config
	}
	return fmt.Sprintf("to take it back: penstock undo %s%s --from %s --to %d%s\n", table, branch, from, move.To, config)
}

// noneBefore is the value of undo's --from for a branch that did not exist, or main of a table without snapshots.
const noneBefore = "none"

func (p process) undoCommand() *cobra.Command {
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
	config, progress := configFlag(c), progressFlag(c)
	branch := cmdline.Text(c, "branch", "NAME", "the branch (default main)")
	from := cmdline.Text(c, "from", "SNAPSHOT|none", "the snapshot to move back to, or none")
	to := cmdline.Text(c, "to", "SNAPSHOT", "the snapshot to move back from")
	c.RunE = func(c *cobra.Command, args []string) error {
		made := tablecommit.Move{Ref: cmp.Or(*branch, tablecommit.Main)}
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
		g, err := p.progressOf(*progress, "undo", args[0])
		if err != nil {
			return err
		}
		return g.end(p.withEngine(c.Context(), *config, func(ctx context.Context, e *engine) error {
			tables, name, err := e.writes(args[0])
			if err != nil {
				return err
			}
			g.step("move")
			made.Table = name
			if err := tables.Undo(ctx, made); err != nil {
				return err
			}
			_, err = fmt.Fprint(p.stdout, undoneText(args[0], made))
			return err
		}))
	}
	return c
}

// undoneText describes a move that was taken back.
func undoneText(table string, made tablecommit.Move) string {
	switch {
	case made.From != 0:
		return fmt.Sprintf("%s of table %s is at snapshot %d again\n", made.Ref, table, made.From)
	case made.Ref == tablecommit.Main:
		return fmt.Sprintf("%s of table %s has no snapshot again: the table is empty\n", made.Ref, table)
	}
	return fmt.Sprintf("branch %s of table %s is removed\n", made.Ref, table)
}

// snapshotFlag parses the id of a snapshot.
func snapshotFlag(name, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, cmdline.Errorf("--%s needs the id of a snapshot, as publish and stage print it", name)
	}
	return id, nil
}
