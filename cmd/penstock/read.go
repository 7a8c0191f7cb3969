package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// asking runs f with the source that the flags name, until the user
// interrupts it.
func (p process) asking(c *cobra.Command, flags sourceFlags, f func(context.Context, *client) error) (err error) {
	ctx, stop := interruptible(c.Context())
	defer stop()
	s, err := p.source(ctx, flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return f(ctx, s)
}

func (p process) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "explain [DATASET]", Short: "Show what a query reads, in which order and why", Args: atMostOne,
		Long: "Show what a query reads, in which order and why. Nothing but metadata is read.\n\n" +
			"With --config the plan is made in process, with --uri by a server.\n" +
			"--json prints what scripts need of it: plan id, pin, rows, steps, columns.",
		Example: "  penstock explain homefeed --config penstock.yaml\n" +
			"  penstock explain --uri grpc://127.0.0.1:8815 --query '{\"dataset\": \"homefeed\", \"lanes\": 4}'",
	}
	from, query := newSourceFlags(c), newQueryFlags(c)
	asJSON := c.Flags().Bool("json", false, "print the plan's summary and columns as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := p.json(query, args)
		if err != nil {
			return err
		}
		return p.asking(c, from, func(ctx context.Context, s *client) error {
			if *asJSON {
				planned, err := s.Planned(ctx, text)
				if err != nil {
					return err
				}
				return p.printJSON(planned)
			}
			plan, err := s.Explain(ctx, text)
			if err != nil {
				return err
			}
			_, err = io.WriteString(p.stdout, plan)
			return err
		})
	}
	return c
}
