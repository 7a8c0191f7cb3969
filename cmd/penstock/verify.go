package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// findingsError is returned by a verification with findings, which are in its report.
type findingsError struct{}

func (findingsError) Error() string { return "there are findings" }

// unverifiedError is returned if a verification could not be completed.
type unverifiedError struct{ err error }

func (e unverifiedError) Error() string { return e.err.Error() }
func (e unverifiedError) Unwrap() error { return e.err }

func verifyCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "verify [DATASET]", Short: "Check that a dataset's tables are laid out as the join expects", Args: cmdline.AtMostOne,
		Long: "Check that a dataset's tables are laid out as the join expects. The keys of all\n" +
			"tables are read, to check the bucket of every row and to count duplicate and null\n" +
			"keys, training rows that match, and staging keys that match no training row.\n\n" +
			"Findings are keys in a wrong file, files that cannot be read, violated rules of the\n" +
			"dataset, and joins that match none of their rows, or less than 1 % of 10,000: of these,\n" +
			"some keys of both tables are shown next to each other. A finding breaks a stream, breaks\n" +
			"a rule, or is worth knowing. The exit code is 1 if there are findings of the first two\n" +
			"grades, otherwise 0, and 3 if the tables could not be verified.",
		Example: "  penstock verify homefeed --config penstock.yaml\n" +
			"  penstock verify homefeed --uri grpc://127.0.0.1:8815 --filter \"day = DATE '2026-10-01'\" --json",
	}
	from, query := newSourceFlags(c), cmdline.NewRows(c)
	asJSON := c.Flags().Bool("json", false, "print the report as JSON, with the layout of every file")
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := query.JSON(args, p.stdin)
		if err == nil {
			g := p.readingProgress("verify", "")
			err = p.withClient(c, from, func(ctx context.Context, s *client.Client) error { return p.verify(ctx, s, text, *asJSON, g) })
			err = g.end(err)
		}
		if mistake := (cmdline.Error{}); err == nil || errors.Is(err, findingsError{}) || errors.As(err, &mistake) {
			return err
		}
		return unverifiedError{err}
	}
	return c
}

// verify prints the report. It returns findingsError if the report has findings.
func (p terminal) verify(ctx context.Context, s *client.Client, query []byte, asJSON bool, g *commandProgress) error {
	found, err := s.Verify(ctx, query, g.report)
	if err != nil {
		return err
	}
	if asJSON {
		err = p.printJSON(found)
	} else {
		_, err = io.WriteString(p.stdout, found.String())
	}
	if err != nil {
		return err
	}
	if !found.Clean() {
		return findingsError{}
	}
	return nil
}
