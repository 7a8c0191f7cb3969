package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// withClient calls f with a client of the source that the flags name. Termination signals end the
// context of f.
func (p process) withClient(c *cobra.Command, flags sourceFlags, f func(context.Context, *client.Client) error) (err error) {
	ctx, stop := interruptible(c.Context())
	defer stop()
	s, err := p.open(ctx, flags, p.stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return f(ctx, s)
}

// plannedJSON is the JSON form of a plan.
type plannedJSON struct {
	Plan    json.RawMessage `json:"plan"` // the summary in FlightInfo (docs/spec/wire.md)
	Columns []columnJSON    `json:"columns"`
}

func explainCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "explain [DATASET]", Short: "Show what a query reads, in which order, and why", Args: cmdline.AtMostOne,
		Long: "Show what a query reads, in which order, and why. Only metadata is read.\n\n" +
			"The text has at most 40 lines for any plan; --splits prints everything.\n\n" +
			"With --config, the plan is made in process, with --uri, by a server. --json prints a\n" +
			"summary for scripts: plan id, pin, rows, steps, columns.",
		Example: "  penstock explain homefeed --config penstock.yaml\n" +
			"  penstock explain --uri grpc://127.0.0.1:8815 --query '{\"dataset\": \"homefeed\", \"lanes\": 4}'",
	}
	from, query := newSourceFlags(c), cmdline.NewQuery(c)
	asJSON := c.Flags().Bool("json", false, "print the plan's summary and columns as JSON")
	splits := c.Flags().Bool("splits", false, "print everything: each split with its file groups, each lane, and all rules in full")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *asJSON && *splits {
			return cmdline.Errorf("--json prints a summary, --splits a text: give one of them")
		}
		text, err := query.JSON(args, p.stdin)
		if err != nil {
			return err
		}
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			if *asJSON {
				summary, schema, err := s.Plan(ctx, text)
				if err != nil {
					return err
				}
				return p.printJSON(plannedJSON{Plan: summary, Columns: columnsJSON(schema)})
			}
			plan, err := s.Explain(ctx, text, *splits)
			if err != nil {
				return err
			}
			_, err = io.WriteString(p.stdout, plan)
			return err
		})
	}
	return c
}
