package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/planpicture"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
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
	Plan    summaryJSON  `json:"plan"`
	Columns []columnJSON `json:"columns"`
}

// summaryJSON is the summary in FlightInfo (docs/spec/wire.md), with snapshot ids as strings.
type summaryJSON struct {
	flight.PlanSummary
	Pin   pinJSON            `json:"pin"`
	Since dataset.SnapshotID `json:"since,omitempty"`
}

// verifiedJSON is a report on the keys of a query's tables, with snapshot ids as strings.
type verifiedJSON struct {
	*loader.Verification
	Pin pinJSON `json:"pin"`
}

// pinJSON is a pin with snapshot ids as strings. Queries accept both forms.
type pinJSON struct {
	Training tablePinJSON            `json:"training"`
	Staging  map[string]tablePinJSON `json:"staging"`
}

type tablePinJSON struct {
	dataset.TablePin
	Snapshot dataset.SnapshotID `json:"snapshot"`
}

func pinJSONOf(pin dataset.Pin) pinJSON {
	of := func(p dataset.TablePin) tablePinJSON {
		return tablePinJSON{TablePin: p, Snapshot: dataset.SnapshotID(p.Snapshot)}
	}
	out := pinJSON{Training: of(pin.Training), Staging: make(map[string]tablePinJSON, len(pin.Staging))}
	for name, p := range pin.Staging {
		out.Staging[name] = of(p)
	}
	return out
}

func explainCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "explain [DATASET]", Short: "Show what a query reads, in which order, and why", Args: cmdline.AtMostOne,
		Long: "Show what a query reads, in which order, and why. Only metadata is read.\n\n" +
			"The text has at most 40 lines for any plan; --splits prints everything. --svg also draws it: the rows of each bucket and\n" +
			"lane, the files of each table, and the match rates of the last streams of the dataset on the server.\n\n" +
			"--scale computes how many servers, and how much memory, network and storage, a number of trainers need, with the\n" +
			"basis of each figure. The parameters are trainers and step (the time for a batch), and optionally rows (of a batch),\n" +
			"row (bytes), cpu (of a server for a row), cores, memory and link of a server, server_price, request_price and\n" +
			"traffic_price.\n\n" +
			"With --config, this process makes the plan; with --uri, a server does. --json prints a\n" +
			"summary for scripts: plan id, pin, rows, steps, columns.",
		Example: "  penstock explain homefeed --config penstock.yaml\n" +
			"  penstock explain homefeed --config penstock.yaml --batch-rows 4096 --scale trainers=64,step=5ms\n" +
			"  penstock explain --uri grpc://127.0.0.1:8815 --query '{\"dataset\": \"homefeed\", \"lanes\": 4}'",
	}
	from, query := newSourceFlags(c), cmdline.NewQuery(c)
	asJSON := c.Flags().Bool("json", false, "print the plan's summary and columns as JSON")
	splits := c.Flags().Bool("splits", false, "print everything: each split with its file groups, each lane, and all rules in full")
	picture := cmdline.Text(c, "svg", "FILE", "also draw the plan, as an SVG picture in a file")
	load := cmdline.Text(c, "scale", "TRAINERS", "compute what trainers need instead, such as trainers=64,step=5ms")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case *asJSON && *splits:
			return cmdline.Errorf("--json prints a summary, --splits a text: give one of them")
		case *load != "" && *splits:
			return cmdline.Errorf("--scale prints figures, --splits a plan: give one of them")
		}
		text, err := query.JSON(args, p.stdin)
		if err != nil {
			return err
		}
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			if err := drawPlan(ctx, s, text, *picture); err != nil {
				return err
			}
			switch {
			case *load != "":
				return p.printScale(ctx, s, text, *load, *asJSON)
			case *asJSON:
				return p.printPlan(ctx, s, text)
			}
			plan, err := s.Explain(ctx, text, *splits)
			if err != nil {
				return err
			}
			_, err = io.WriteString(p.stdout, plan)
			p.notePage(ctx, from, ui.PathOfDataset(strings.Join(args, "")))
			return err
		})
	}
	return c
}

// printScale prints what trainers need to read a query.
func (p terminal) printScale(ctx context.Context, s *client.Client, query []byte, load string, asJSON bool) error {
	sized, err := s.Scale(ctx, query, load)
	if err != nil {
		return err
	}
	return p.printResult(asJSON, sized.Sizing, sized.Text)
}

// drawPlan writes the picture of a query's plan to a file. With an empty path, it does nothing.
func drawPlan(ctx context.Context, s *client.Client, query []byte, path string) error {
	if path == "" {
		return nil
	}
	var of flight.PlanShape
	return writeAlso("svg", path, func() (err error) {
		of, err = s.Shape(ctx, query)
		return err
	}, func(w io.Writer) error {
		_, err := io.WriteString(w, planpicture.File(of))
		return err
	})
}

// printPlan prints the summary of a query's plan and its columns as JSON.
func (p terminal) printPlan(ctx context.Context, s *client.Client, query []byte) error {
	summary, schema, err := s.Plan(ctx, query)
	if err != nil {
		return err
	}
	var plan flight.PlanSummary
	if err := json.Unmarshal(summary, &plan); err != nil {
		return fault.New(fault.Internal, "read the summary of a plan: %w", err)
	}
	shown := summaryJSON{PlanSummary: plan, Pin: pinJSONOf(plan.Pin), Since: dataset.SnapshotID(plan.Since)}
	return p.printJSON(plannedJSON{Plan: shown, Columns: columnsJSON(schema)})
}

func countCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "count [DATASET]", Short: "Count the rows of a query", Args: cmdline.AtMostOne,
		Long: "Count the rows that cat prints for the same query. If the plan of the query has the number, no data file is\n" +
			"read. Otherwise, the server reads the keys, deletes and filter columns that decide which rows the query has,\n" +
			"or the rows themselves if they belong to whole requests.",
		Example: "  penstock count homefeed --config penstock.yaml\n" +
			"  penstock count homefeed --uri grpc://127.0.0.1:8815 --filter \"day = DATE '2026-10-01'\" --json",
	}
	from, query := newSourceFlags(c), cmdline.NewQuery(c)
	asJSON := c.Flags().Bool("json", false, "print the number as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := query.JSON(args, p.stdin)
		if err != nil {
			return err
		}
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			rows, err := s.Count(ctx, text)
			if err != nil {
				return err
			}
			return p.printResult(*asJSON, map[string]int64{"rows": rows}, strconv.FormatInt(rows, 10)+"\n")
		})
	}
	return c
}

// findingsError is returned by a verification with findings, which are in its report.
type findingsError struct{}

func (findingsError) Error() string { return "there are findings" }

// unverifiedError is the error of a verification that could not be completed.
type unverifiedError struct{ err error }

func (e unverifiedError) Error() string { return e.err.Error() }
func (e unverifiedError) Unwrap() error { return e.err }

func verifyCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "verify [DATASET]", Short: "Check that a dataset's tables are laid out as the join expects", Args: cmdline.AtMostOne,
		Long: "Check that a dataset's tables are laid out as the join expects. The keys of all\n" +
			"tables are read, to check the bucket of every row and to count duplicate and null\n" +
			"keys, training rows that match, and staging keys that match no training row.\n\n" +
			"Findings are keys in a wrong file, files that cannot be read, broken rules of the\n" +
			"dataset, and joins in which no row matches, or fewer than 1 % of 10,000 rows; for these\n" +
			"joins, keys of both tables are shown next to each other. A finding breaks a stream,\n" +
			"breaks a rule, or is a note. The exit code is 1 if a finding breaks a stream or a rule,\n" +
			"3 if the tables could not be verified, and otherwise 0.",
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
		err = p.printJSON(verifiedJSON{Verification: found, Pin: pinJSONOf(found.Pin)})
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
