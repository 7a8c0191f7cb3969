package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/outfile"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/htmlpage"
)

func statsCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "stats TABLE|DATASET [AT]", Short: "Describe the values of columns of a table or dataset",
		Long: "Describe the values of the columns of a table or dataset: nulls, minimum, maximum, mean, deviation, quantiles, distinct and frequent\n" +
			"values; for lists, the same for their lengths and elements, and for the norms of lists of floats.\n" +
			"AT is the id of a snapshot, the name of a branch or tag, or a time; main by default. Deleted rows are left out.\n\n" +
			"Counts, minimum, maximum, mean and deviation are exact. Quantiles and frequent values come from a sample of\n" +
			"rows, which is always the same for the same rows; the result has their precision.\n\n" +
			"For a dataset, it also describes each staging entry, as the dataset joins it: how many training rows match, on which\n" +
			"days, how old the values are, and which keys are repeated.\n\n" +
			"With --against, the values are compared with those of another snapshot or dataset, as a whole and for each\n" +
			"day or other partition by time. The exit code is 1 if a change is beyond its limit, and 3 if the tables could not be compared.\n\n" +
			"With --keep, the result is committed to the table, as an Iceberg statistics file of the snapshot. Other engines use its\n" +
			"numbers of distinct values.",
		Example: "  penstock stats features.history --config penstock.yaml\n" +
			"  penstock stats features.history candidate --columns price,items --json --config penstock.yaml\n" +
			"  penstock stats features.history candidate --against main --config penstock.yaml\n" +
			"  penstock stats homefeed --uri grpc://127.0.0.1:8815",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 { //nolint:mnd // a table and a snapshot
				return cmdline.Errorf("%s needs a table or dataset, and takes one snapshot at most", c.CommandPath())
			}
			return nil
		},
	}
	from := newSourceFlags(c)
	columns := cmdline.Text(c, "columns", "COLUMNS", "the columns to describe, separated by commas (default: all)")
	against := cmdline.Text(c, "against", "AT", "compare with this snapshot, branch, tag or time, or with this dataset")
	label := cmdline.Text(c, "label", "COLUMN", "the label: say how well each column predicts it, and whether one probably has the label itself")
	exact := c.Flags().Bool("exact", false, "take quantiles and frequent values from all rows, whose values then have to fit in memory")
	noValues := c.Flags().Bool("no-values", false, "leave out frequent values, and the first and last text")
	keep := c.Flags().Bool("keep", false, "also keep the result with the table, in a statistics file of the snapshot that other engines read")
	html := cmdline.Text(c, "html", "FILE", "also write the result to a file, as an HTML page with charts")
	asJSON := c.Flags().Bool("json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *keep && (*columns != "" || *against != "" || *label != "") {
			return cmdline.Errorf("--keep is supported only without --columns, --against and --label: kept statistics are those of all columns of one snapshot")
		}
		args = append(args, "")
		request := decode.StatsCommand{
			Of: args[0], At: args[1], Against: *against, Columns: cmdline.Items(*columns), Label: *label, Exact: *exact, NoValues: *noValues, Keep: *keep, Progress: true,
		}
		g := p.readingProgress("stats", request.Of)
		var out client.Description
		describe := func() error {
			return g.end(p.withClient(c, from, func(ctx context.Context, s *client.Client) (err error) {
				out, err = s.Stats(ctx, request, g.report)
				return err
			}))
		}
		err := writeAlso("html", *html, describe, func(w io.Writer) error { return writeDescription(w, out) })
		switch mistake := (cmdline.Error{}); {
		case err != nil && *against != "" && !errors.As(err, &mistake):
			return unverifiedError{err}
		case err != nil:
			return err
		}
		if joined := out.Dataset; joined != nil {
			return p.printStats(*asJSON, joined, entriesText(joined), findings{joined.Label, joined.Against})
		}
		return p.printStats(*asJSON, out.Table, statsText(out.Table), findings{out.Table.Label, out.Table.Against})
	}
	return c
}

// writeDescription writes a description as an HTML page.
func writeDescription(w io.Writer, d client.Description) error {
	if d.Dataset != nil {
		return htmlpage.WriteDataset(w, d.Dataset)
	}
	return htmlpage.Write(w, d.Table)
}

// findings are the parts of a result that may have alarms.
type findings struct {
	label   *stats.Label
	against *statistics.Comparison
}

// printStats prints a result. It returns findingsError if there are alarms.
func (p terminal) printStats(asJSON bool, result any, text string, of findings) error {
	if of.label != nil {
		text += labelText(of.label)
	}
	if of.against != nil {
		text += comparisonText(of.against)
	}
	if err := p.printResult(asJSON, result, text); err != nil {
		return err
	}
	if len(of.label.Alarms()) > 0 || of.against != nil && len(of.against.Alarms) > 0 {
		return findingsError{}
	}
	return nil
}

// maxDescribed is the maximum number of columns that a server describes in one call.
const maxDescribed = 512

// createdBy names the program and its version in files of statistics.
func createdBy() string { return "Penstock " + version() }

// noteUnkept returns a function that says on standard error why the statistics of files are not kept.
func noteUnkept(stderr io.Writer) func(error) {
	return func(err error) {
		_, _ = fmt.Fprintf(stderr, "statistics of files are not kept in cache_dir: %s\n", fault.Redact(err.Error()))
	}
}

// unkeptLog returns a function that logs why the statistics of files are not kept.
func unkeptLog(log *slog.Logger) func(error) {
	return func(err error) { log.Warn("statistics of files are not kept in cache_dir", "error", err) }
}

// writeAlso calls describe, and then write with a writer for the file at the path that a flag names. The file is created or replaced only if
// both succeed. The path is checked before describe is called. With an empty path, writeAlso only calls describe.
func writeAlso(flag, path string, describe func() error, write func(io.Writer) error) error {
	switch path {
	case "":
		return describe()
	case "-":
		return cmdline.Errorf("--%s - is not supported, because the result is printed as text or JSON: name a file", flag)
	}
	err := outfile.Write(path, func(w io.Writer) error {
		if err := describe(); err != nil {
			return err
		}
		return write(w)
	})
	if _, ok := errors.AsType[outfile.TargetError](err); ok {
		return cmdline.Errorf("--%s %w", flag, err)
	}
	return err
}

// shownTop is the number of frequent values in the result as text.
const shownTop = 3

// statsText describes a table.
func statsText(r *statistics.Result) string {
	var b strings.Builder
	at := "no snapshot"
	if r.Snapshot != 0 {
		at = fmt.Sprintf("snapshot %d  %s", r.Snapshot, r.Time.Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "table %s  %s  %d rows", r.Table, at, r.Rows)
	if r.Files != nil && r.Bytes != nil {
		fmt.Fprintf(&b, ", %s, %s", fault.Size(*r.Bytes), fault.Count(*r.Files, "file"))
	}
	b.WriteByte('\n')
	writeSample(&b, r.Sample, r.NotDescribed)
	if r.Kept != "" {
		fmt.Fprintf(&b, "kept with the table in %s\n", r.Kept)
	}
	b.WriteByte('\n')
	writeSummaries(&b, r.Columns)
	return b.String()
}

// writeSample says how exact a result is, and which columns it does not describe.
func writeSample(b *strings.Builder, s statistics.Sample, notDescribed []string) {
	if s.QuantileError > 0 {
		fmt.Fprintf(b, "quantiles and frequent values: of %d rows, each with a probability of 1 in %.0f; quantiles are exact to %.1f %% of the values\n",
			s.Rows, 1/s.Rate, 100*s.QuantileError) //nolint:mnd // percent
	}
	if len(notDescribed) > 0 {
		fmt.Fprintf(b, "columns that are not described, because of their types: %s\n", strings.Join(notDescribed, ", "))
	}
}

// writeSummaries writes a table of columns.
func writeSummaries(b *strings.Builder, columns []stats.Summary) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "column\ttype\tnulls\tdistinct\tmin\t1 %\t50 %\t99 %\tmax\tmean\tdeviation\tmost frequent\tnotes")
	for _, s := range columns {
		_, _ = fmt.Fprintln(w, strings.Join(statsRow(s), "\t"))
	}
	_ = w.Flush()
}

// statsRow returns the cells of a summary.
func statsRow(s stats.Summary) []string {
	distinct := ""
	if s.Distinct != nil {
		distinct = strconv.FormatInt(*s.Distinct, 10)
		if !s.DistinctExact {
			distinct = "~" + distinct
		}
	}
	quantile := func(i int) string {
		if len(s.Quantiles) == 0 {
			return ""
		}
		return cell(&s.Quantiles[i])
	}
	return []string{
		s.Name, s.Type, share(s.Nulls, s.Rows), distinct, cell(s.Min), quantile(0), quantile(len(stats.Quantiles) / 2), //nolint:mnd // the median
		quantile(len(stats.Quantiles) - 1), cell(s.Max), cell(s.Mean), cell(s.Deviation), topText(s), statsNotes(s),
	}
}

// cell returns the text of a value, with few digits.
func cell(v *stats.Value) string {
	if v == nil {
		return ""
	}
	return v.Short()
}

// share returns a part of a number in percent; "" for none.
func share(n, of int64) string {
	if n == 0 {
		return ""
	}
	return percent(float64(n) / float64(of))
}

// percent returns a share in percent, with three digits.
func percent(share float64) string {
	return strconv.FormatFloat(100*share, 'g', 3, 64) + "%" //nolint:mnd // percent, digits, bits
}

// topText returns the most frequent values. Texts are quoted, since they may be empty or have commas.
func topText(s stats.Summary) string {
	out := make([]string, 0, shownTop)
	for _, t := range s.Top[:min(len(s.Top), shownTop)] {
		text := t.Value.Short()
		if s.Type == arrow.BinaryTypes.String.String() {
			text = strconv.Quote(text)
		}
		out = append(out, fmt.Sprintf("%s (%s)", text, percent(t.Share)))
	}
	return strings.Join(out, ", ")
}

// statsNotes returns what is unusual about the values.
func statsNotes(s stats.Summary) string {
	var out []string
	add := func(n int64, what string) {
		if n > 0 {
			out = append(out, share(n, s.Values)+" "+what)
		}
	}
	add(s.NaN, "NaN")
	add(s.Infinite, "infinite")
	if s.Zeros != nil {
		add(*s.Zeros, "zero")
	}
	if s.Empty != nil {
		add(*s.Empty, "empty")
	}
	if s.MeanBytes != nil {
		out = append(out, s.MeanBytes.Short()+" bytes on average")
	}
	return strings.Join(out, ", ")
}
