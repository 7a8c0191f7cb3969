package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// findingsError ends a verification that found something. The report says what.
type findingsError struct{}

func (findingsError) Error() string { return "there are findings" }

// unverifiedError is why a verification could not be made.
type unverifiedError struct{ err error }

func (e unverifiedError) Error() string { return e.err.Error() }
func (e unverifiedError) Unwrap() error { return e.err }

func (p process) verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify [DATASET]", Short: "Check that a dataset's tables are what the join takes them for", Args: atMostOne,
		Long: "Check that a dataset's tables are what the join takes them for. The keys of all\n" +
			"tables are read: the bucket of every row, duplicate and null keys, the share of\n" +
			"training rows that match, and staging keys that no training row finds.\n\n" +
			"Findings are keys in a wrong file, files that cannot be read, and rules of the\n" +
			"dataset that do not hold. The exit code is 0 without findings, 1 with some, and 3\n" +
			"if the tables could not be verified.",
		Example: "  penstock verify homefeed --config penstock.yaml\n" +
			"  penstock verify homefeed --uri grpc://127.0.0.1:8815 --filter \"day = DATE '2026-10-01'\" --json",
	}
	from, query := newSourceFlags(c), newRowFlags(c)
	asJSON := c.Flags().Bool("json", false, "print the report as JSON, with every file's layout")
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := p.json(query, args)
		if err == nil {
			err = p.asking(c, from, func(ctx context.Context, s *client) error { return p.verify(ctx, s, text, *asJSON) })
		}
		if wrong := (usageError{}); err == nil || errors.Is(err, findingsError{}) || errors.As(err, &wrong) {
			return err
		}
		return unverifiedError{err}
	}
	return c
}

// verify prints the report. It fails with findingsError where that has some.
func (p process) verify(ctx context.Context, s *client, query []byte, asJSON bool) error {
	found, err := s.Verify(ctx, query)
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
