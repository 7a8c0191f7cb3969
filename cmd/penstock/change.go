package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
)

// changeFlags are the flags of all commands that change tables.
type changeFlags struct {
	sourceFlags
	progress *string
}

func newChangeFlags(c *cobra.Command) changeFlags {
	return changeFlags{sourceFlags: newSourceFlags(c), progress: progressFlag(c)}
}

// change calls f with a client of the server that changes tables, and with what reports how far the command is.
func (p process) change(c *cobra.Command, flags changeFlags, table string, f func(context.Context, *client.Client, *commandProgress) error) error {
	g, err := p.progressOf(*flags.progress, c.Name(), table)
	if err != nil {
		return err
	}
	return g.end(p.withClient(c, flags.sourceFlags, func(ctx context.Context, s *client.Client) error { return f(ctx, s, g) }))
}

// printResult prints the result of a command that wrote: as JSON, or else as text.
func (p terminal) printResult(asJSON bool, result any, text string) error {
	if asJSON {
		return p.printJSON(result)
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}
