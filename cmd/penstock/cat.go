package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/outfile"
	"github.com/penstock/penstock/cmd/penstock/rowformat"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
)

// Defaults of cat.
const (
	tableRows  = 20  // rows of a table
	tableWidth = 120 // characters per line of a table, if there is no terminal
)

// catFlags are the flags that control the output of cat.
type catFlags struct {
	format, output *string
	limit          *int64
	width          *int
	ends           bool // whether the query has a limit: then its stream ends soon after the last printed row, with a report
}

func catCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "cat [DATASET]", Short: "Print the rows of a query", Args: cmdline.AtMostOne,
		Long: "Print the rows of a query as a table, CSV, JSON lines, or an Arrow or Parquet file.\n\n" +
			"The query's wire applies: if it is indexed, the columns of a staging table are one struct;\n" +
			"if it is grouped, each row is a request; auto means plain.\n\n" +
			"With --config, rows are read in process; with --uri, from a server. The number of rows, and\n" +
			"how many of them matched each staging table, are printed on standard error.",
		Example: "  penstock cat homefeed --config penstock.yaml --columns request_id,label --limit 5\n" +
			"  penstock cat homefeed --uri grpc://127.0.0.1:8815 --shard 0/4 --lanes 4 --format arrow --output part.arrow",
	}
	from, query := newSourceFlags(c), cmdline.NewQuery(c)
	flags := catFlags{
		format: cmdline.Text(c, "format,f", strings.Join(rowformat.Names(), "|"), "the form of the rows (default: by the extension of FILE; table without FILE)"),
		output: cmdline.Text(c, "output,o", "FILE", "the file to write, or - for standard output (the default); the file is created or replaced once it is complete"),
		limit:  c.Flags().Int64P("limit", "n", 0, "the maximum number of rows; 0 is all (default 20 for tables, else all)"),
		width:  c.Flags().Int("width", 0, "characters per line of a table; 0 is no limit (default: the terminal's, else 120)"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := flags.resolveFormat(); err != nil {
			return err
		}
		if *flags.limit < 0 || *flags.width < 0 {
			return cmdline.Errorf("--limit and --width must be at least 0")
		}
		if *flags.format == "table" && !c.Flags().Changed("limit") {
			*flags.limit = tableRows
		}
		if !c.Flags().Changed("width") {
			*flags.width = p.tableWidth()
		}
		text, err := query.JSON(args, p.stdin)
		if err != nil {
			return err
		}
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			text, flags.ends = limited(text, *flags.limit)
			rows, err := s.Open(ctx, text)
			if err != nil {
				return err
			}
			defer rows.Release()
			g := p.catProgress(rows, flags, args)
			return g.end(p.writeOutput(*flags.output, func(w io.Writer) error { return p.print(rows, w, flags, g) }))
		})
	}
	return c
}

// catProgress returns the progress of a command that writes a file, or nil if it prints to standard
// output.
func (p process) catProgress(rows *client.Shards, flags catFlags, args []string) *commandProgress {
	if *flags.output == "" || *flags.output == "-" {
		return nil
	}
	g := p.readingProgress("cat", strings.Join(args, ""))
	all := max(rows.Planned, 0)
	if limit := *flags.limit; limit > 0 && all > 0 {
		all = min(all, limit)
	}
	g.step(stepRead)
	g.at(progress.Counts{OfRowsRead: all})
	return g
}

// limited sets the query's limit to limit+1, so that the stream ends with a report on these rows.
// It returns the query unchanged, and false, if limit is 0, or if the query already has a limit or
// a field that cannot be combined with a limit.
func limited(query []byte, limit int64) ([]byte, bool) {
	fields := map[string]json.RawMessage{}
	if limit == 0 || limit == math.MaxInt64 || json.Unmarshal(query, &fields) != nil {
		return query, false
	}
	for _, name := range []string{"limit", "batch_requests", "tail", "shard", "every", "endpoints", "cursor"} {
		if _, given := fields[name]; given {
			return query, false
		}
	}
	fields["limit"] = strconv.AppendInt(nil, limit+1, 10)
	text, err := json.Marshal(fields)
	if err != nil {
		return query, false
	}
	return text, true
}

// writeOutput calls f with a writer for a path, or for standard output if path is "" or "-".
func (p terminal) writeOutput(path string, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		return f(p.stdout)
	}
	err := outfile.Write(path, f)
	if _, ok := errors.AsType[outfile.TargetError](err); ok {
		return cmdline.Errorf("--output %w, or leave --output out and redirect the standard output", err)
	}
	return err
}

// resolveFormat sets the format if --format was not given: to the format that the extension of the
// output file belongs to, or to table if there is no output file. It returns an error if the
// extension belongs to a format other than that of --format, or if --format was not given and the
// extension belongs to no format.
func (f catFlags) resolveFormat() error {
	named := strings.TrimPrefix(filepath.Ext(*f.output), ".")
	if !slices.Contains(rowformat.Names(), named) {
		named = ""
	}
	switch file := *f.output; {
	case *f.format != "":
	case named == "" && file != "" && file != "-":
		return cmdline.Errorf("--output %s does not have the extension of a format: add --format, or one of the extensions .%s", file, strings.Join(rowformat.Names(), ", ."))
	default:
		*f.format = cmp.Or(named, "table")
	}
	switch {
	case !slices.Contains(rowformat.Names(), *f.format):
		return unknownFormat(*f.format)
	case named != "" && named != *f.format:
		return cmdline.Errorf("--output %s has the extension of a format other than --format %s: leave --format out, or name another file", *f.output, *f.format)
	}
	return nil
}

// unknownFormat returns the error for a format that does not exist.
func unknownFormat(name string) error {
	meant := ""
	if near := fault.Nearest(name, rowformat.Names()); near != "" {
		meant = "\n  did you mean --format " + near + "?"
	}
	return cmdline.Errorf("--format %s: the formats are %s%s", name, strings.Join(rowformat.Names(), ", "), meant)
}

// tableWidth returns the default of --width.
func (p process) tableWidth() int {
	if p.width > 0 {
		return p.width
	}
	if n, err := strconv.Atoi(p.orEnv("", "COLUMNS")); err == nil && n > 0 {
		return n
	}
	return tableWidth
}

// print writes rows to w, up to the limit, and then prints the number of written rows on standard
// error.
func (p terminal) print(rows *client.Shards, w io.Writer, flags catFlags, g *commandProgress) error {
	out, err := rowformat.New(*flags.format, w, rows.Schema, *flags.width)
	if err != nil {
		return err
	}
	left, more := *flags.limit, false
	written := int64(0)
	for rows.Next() {
		batch := rows.RecordBatch()
		if *flags.limit > 0 {
			if left == 0 {
				more = true
				break
			}
			if batch.NumRows() > left {
				more = true
				batch = batch.NewSlice(0, left)
				defer batch.Release()
			}
			left -= batch.NumRows()
		}
		if err := out.Write(batch); err != nil {
			return err
		}
		written += batch.NumRows()
		g.rows(written)
		if more {
			break
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	text := rowsText(written)
	if rows.Grouped {
		text = fault.Count(written, "request")
	}
	if more {
		p.note("%s, and there are more; --limit 0 gives all%s\n", text, matchedSoFar(rows, flags))
		p.warnOfMatches(rows.Total)
		return nil
	}
	if rows.Grouped {
		text += " of " + rowsText(rows.Total.Rows)
	}
	p.note("%s%s\n", text, matchText(rows.Total))
	p.warnOfMatches(rows.Total)
	return nil
}

// matchedSoFar describes, for each staging table, how many of the rows read so far matched it. The
// server reports this at the end of the stream. matchedSoFar returns "" if there is no report,
// because the query has no limit or reading fails.
func matchedSoFar(rows *client.Shards, flags catFlags) string {
	if !flags.ends {
		return ""
	}
	for rows.Next() {
		continue // at most one more row, the one after the limit
	}
	if text := matchText(rows.Total); text != "" {
		return "; of the rows that were read" + strings.Replace(text, ";", ",", 1)
	}
	return ""
}

// warnOfMatches prints the warnings of a report.
func (p terminal) warnOfMatches(r client.Report) {
	for _, name := range slices.Sorted(maps.Keys(r.Staging)) {
		if warning := r.Staging[name].Warning; warning != "" {
			p.note("warning: %s: %s\n", name, warning)
		}
	}
}

func rowsText(n int64) string { return fault.Count(n, "row") }

// matchText describes, for each staging table, how many rows matched it.
func matchText(r client.Report) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Staging)) {
		c := r.Staging[name]
		fmt.Fprintf(&text, "; %s matched %d of %d", name, c.Matched, c.Rows)
	}
	return text.String()
}
